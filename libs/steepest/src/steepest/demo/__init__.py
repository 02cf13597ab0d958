"""The demo: a workload of real trainings on emulated nodes, watched live and told afterwards."""
