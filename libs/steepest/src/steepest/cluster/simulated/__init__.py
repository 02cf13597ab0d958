"""A cluster in virtual time: nodes, shares and trainings as arithmetic, behind the same port as real ones."""
