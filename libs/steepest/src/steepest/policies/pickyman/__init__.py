"""PickyMan (Chen et al., IPCCC 2022): run times predicted from storage traffic, and victims chosen by what preempting costs.

Only the abstract of the paper is public. What it says: an epoch's traffic from the storage shows a job's progress; four
profiled jobs of a model predict the run times of others; a suspension waits for the end of the epoch, a resumption reloads
model and data; whom to preempt is an ordered division of the running jobs, found greedily. All formulas and rules here are a
reconstruction of that.
"""
