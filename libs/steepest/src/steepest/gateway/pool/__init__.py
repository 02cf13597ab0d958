"""A pool as the gateway has read it: now, and at earlier positions of its log."""
