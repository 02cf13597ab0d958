"""What a running process says of itself: metrics, health, lag."""
