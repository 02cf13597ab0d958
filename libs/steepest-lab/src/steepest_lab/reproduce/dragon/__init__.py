"""DRAGON's claims: gangs at stated loads in virtual time, and distributed trainings on this machine."""
