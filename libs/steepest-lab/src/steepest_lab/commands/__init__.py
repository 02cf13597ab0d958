"""The commands of the lab, a file each: ``steepest`` finds them here where the lab is installed."""
