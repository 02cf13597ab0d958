"""The output of commands: tables, timelines, the one door to standard output."""
