"""The nodes of a cluster and the pods there: a pool's part of them, and the use of pods."""
