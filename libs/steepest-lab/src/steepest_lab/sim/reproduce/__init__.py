"""The published experiments run again in virtual time, beside what was published."""
