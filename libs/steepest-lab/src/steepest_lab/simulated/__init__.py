"""A cluster in virtual time: nodes, shares and trainings as arithmetic, with the calls of the cluster port as callbacks."""
