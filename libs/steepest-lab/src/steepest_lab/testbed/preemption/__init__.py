"""PickyMan's claims measured on real trainings that stream their data: run times, overheads, and a small cluster."""
