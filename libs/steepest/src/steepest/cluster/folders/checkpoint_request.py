"""One request for a checkpoint, from checkpoint_request to a verified answer or to its withdrawal.

It owns the time limit and the guarantee that no job is left waiting. It must never know why a checkpoint is wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from steepest.aio import uncancelled
from steepest.cluster.folders import control_protocol
from steepest.cluster.folders.acts import definite
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.checkpoint_verification import Volume
from steepest.cluster.folders.control_protocol import CheckpointAnswer
from steepest.cluster.folders.folder_watch import Watch, wait
from steepest.cluster.observation import Observation
from steepest.cluster.time_slicer import TimeSlicer
from steepest.errors import InputError, RefusedError, UncertainError
from steepest.events.common import CheckpointRef


class CheckpointRequester:
    """Requests a checkpoint from one running incarnation.

    Args:
        watch: Wakes the request when the answer may be there.
        volume: The job's checkpoints.
        slicer: Runs the verification.
        folder: The incarnation.
        observe: Returns the incarnation's proven state.
    """

    def __init__(
        self,
        watch: Watch,
        volume: Volume,
        slicer: TimeSlicer,
        folder: IncarnationFolder,
        observe: Callable[[IncarnationFolder], Awaitable[Observation]],
    ) -> None:
        self._watch = watch
        self._volume = volume
        self._turns = slicer
        self._folder = folder
        self._observe = observe

    async def checkpoint(self, request: str, *, hold_s: float, timeout_s: float) -> CheckpointRef:
        """Ask, wait, verify. After any failure once the request was written, cancellation included, it is withdrawn.

        Raises:
            RefusedError: As in ``Cluster.checkpoint``; the job does not wait.
            ClusterError: The request could not be written.
            UncertainError: It could not be withdrawn.
        """
        await self._ask(request, hold_s)
        try:
            answer = await self._answer(request, time.monotonic() + timeout_s)
            return await self._accept(answer)
        except BaseException:
            await uncancelled(withdraw(self._folder, request))
            raise

    async def _ask(self, request: str, hold_s: float) -> None:
        with definite(f"{self._folder} was not asked"):
            try:
                await uncancelled(asyncio.to_thread(control_protocol.ask, self._folder, request, hold_s))
            except asyncio.CancelledError:
                await uncancelled(withdraw(self._folder, request))
                raise

    async def _answer(self, request: str, deadline: float) -> CheckpointAnswer:
        while True:
            pulse = self._watch.pulse.next_pulse()
            seen = await observed(self._observe, self._folder)
            # Read after observing the process: an answer that it wrote just before its end counts.
            answer = await asyncio.to_thread(control_protocol.answer, self._folder, request)
            if answer is not None:
                return answer
            if seen is not None and seen.ended:
                raise RefusedError(f"{self._folder} ended before it answered", code="not-running")
            if time.monotonic() >= deadline:
                raise RefusedError(f"{self._folder} did not answer in time", code="checkpoint-timeout")
            await wait(pulse, min(self._watch.poll_s, deadline - time.monotonic()))

    async def _accept(self, answer: CheckpointAnswer) -> CheckpointRef:
        if answer.refused is not None:
            raise RefusedError(f"{self._folder} refused: {answer.refused[:500]}", code="checkpoint-refused")
        try:
            found = await self._turns.run(self._volume.verifying(answer.name))
        except InputError as error:
            raise RefusedError(str(error), code="checkpoint-invalid") from error
        if (found.step, found.digest) != (answer.step, answer.digest):
            raise RefusedError(f"{answer.name} differs from what {self._folder} reported", code="checkpoint-invalid")
        return found


async def observed(
    observe: Callable[[IncarnationFolder], Awaitable[Observation]], folder: IncarnationFolder
) -> Observation | None:
    """The state of an incarnation; None if its node does not answer.

    For waits with a time limit of their own: an engine that is busy, or restarts, may answer the next time, and what the
    job writes does not pass through it.
    """
    try:
        return await observe(folder)
    except UncertainError:
        return None


async def withdraw(folder: IncarnationFolder, request: str) -> None:
    """Withdraw a request and let the job continue; does nothing if the folder is gone.

    Raises:
        UncertainError: The job may still wait.
    """
    try:
        await asyncio.to_thread(control_protocol.withdraw, folder, request)
    except FileNotFoundError:
        return  # the job was forgotten meanwhile
    except OSError as error:
        raise UncertainError(f"the request to {folder} could not be withdrawn: {error}", hint="release it") from error
