"""Jobs that are not managed as one process is: gangs, whose nodes are divided with them in mind, and jobs with GPUs."""
