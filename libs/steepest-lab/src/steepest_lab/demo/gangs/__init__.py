"""The demo of DRAGON: distributed trainings that are placed whole and scaled with the load."""
