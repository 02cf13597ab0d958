"""Value types that several events share. It must never know any topic or event."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$(?!\n)")]
"""A job, node or pool: lower-case letters, digits, dots, dashes and underscores, 1–63 of them."""

LARGEST = 2**63 - 1
"""Snapshots hold integers of 64 bits: a number from outside is of 63, so that one and a little more fits as well."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Positive = Annotated[int, msgspec.Meta(gt=0, le=LARGEST)]
Millis = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""A time of the wall clock, or a span of time, in integer milliseconds."""

ExitStatus = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""0–255, or minus the signal's number; whatever else a system may say in 32 bits."""

Text = Annotated[str, msgspec.Meta(max_length=2000)]
"""A sentence for people; bounded because it may repeat what came from outside."""


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount of each resource: CPU in millicores, memory in MiB, whole GPUs."""

    cpu_m: Count = 0
    memory_mib: Count = 0
    gpus: Count = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu_m + other.cpu_m, self.memory_mib + other.memory_mib, self.gpus + other.gpus)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu_m - other.cpu_m, self.memory_mib - other.memory_mib, self.gpus - other.gpus)

    def fits(self, free: Resources) -> bool:
        """Whether this much can be taken out of ``free``."""
        return self.cpu_m <= free.cpu_m and self.memory_mib <= free.memory_mib and self.gpus <= free.gpus


class CheckpointMode(enum.StrEnum):
    """How a job can be checkpointed."""

    ON_REQUEST = "on-request"  # it saves when asked, and waits for its stop: no step is lost
    ON_STOP = "on-stop"  # it saves when it is stopped
    NONE = "none"  # it is never migrated or preempted


class CheckpointRef(msgspec.Struct, frozen=True):
    """A verified checkpoint: the folder's name on the job's volume, the step it holds, and its digest."""

    name: str
    step: Count
    digest: str
