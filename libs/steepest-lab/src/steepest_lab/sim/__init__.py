"""Simulation in virtual time: workloads, clusters, job models, policies by name, experiments and their reports."""
