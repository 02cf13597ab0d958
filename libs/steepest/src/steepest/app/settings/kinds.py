"""Types that the settings share with the files that describe an installation."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Kind = Literal["JobSet", "TrainJob", "PyTorchJob"]
Namespace = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$(?!\n)", examples=["team-a"])]
Positive = Annotated[int, Meta(ge=1, le=10**12)]
