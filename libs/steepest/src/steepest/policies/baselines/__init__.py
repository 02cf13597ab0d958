"""Allocation policies that the field compares itself with: who runs with how much, when there is less than is asked for."""
