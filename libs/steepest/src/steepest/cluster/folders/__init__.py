"""What adapters over a state folder share: the control protocol, checkpoints, locks and rosters."""
