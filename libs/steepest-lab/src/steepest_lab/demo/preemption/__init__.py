"""The demo of PickyMan: trainings that stream their data, and the timeline of who gave way to whom."""
