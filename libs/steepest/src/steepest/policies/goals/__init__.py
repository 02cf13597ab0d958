"""Goals of jobs: when a job has learned what its user asked for."""
