"""A training by a parameter server and its workers, and how the processes of a gang reach each other."""
