"""What users ask to be changed: which jobs are meant, and what becomes of each."""
