"""Whole devices under the policy ``steepest``: which gangs hold the GPUs of a pool until the next decision.

A gang runs whole or not at all, so the CPU rule's divisible shares become an order: what cannot wait by its promise first
(:mod:`~steepest.policies.steepest.must_run`), then what is longer than the pool's whole backlog, then the rest by the value
of a device-second. Fair ends are those of a fluid that gives every gang an equal number of devices, on nine tenths of them.
"""
