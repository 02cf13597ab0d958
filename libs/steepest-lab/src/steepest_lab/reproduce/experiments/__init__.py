"""Experiments with published figures, SpeCon's and FlowCon's: what they are, their rows and their pictures."""
