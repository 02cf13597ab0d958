"""In which order waiting jobs are placed, and which of them must wait although there is room."""
