"""PickyMan's claims: preemption in virtual time, and real trainings that stream their data."""
