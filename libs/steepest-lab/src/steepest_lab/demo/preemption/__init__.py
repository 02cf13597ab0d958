"""The demo of PickyMan: trainings that stream their data, and the story of who gave way to whom."""
