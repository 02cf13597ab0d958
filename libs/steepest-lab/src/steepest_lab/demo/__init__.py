"""The demo: a workload of real trainings on emulated nodes, shown live and reported afterwards."""
