"""The name, program and output of a job, as the command line knows them without the log."""
