"""Runs an allocation policy over a workload in virtual time: exclusive shares, gangs over nodes, restarts at their cost."""
