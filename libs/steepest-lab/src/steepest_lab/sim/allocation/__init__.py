"""Run an allocation policy on a workload in virtual time: exclusive shares, gangs across nodes, and restart costs."""
