"""Keeps one job from its start, or from its image, to its end: the order of a save, of a hold and of a restore."""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from steepest.keeper import images, kernel, processes
from steepest.keeper.control import Control, HeldImage
from steepest.keeper.criu import FREEZE_S, PASSING, Criu
from steepest.keeper.gang import Followers, Leader, Meeting
from steepest.keeper.held import HeldFiles
from steepest.keeper.images import Images
from steepest.keeper.job_start import become_job
from steepest.keeper.order import KeeperOrder
from steepest.keeper.places import FORMAT, own_place, refuse_other_place
from steepest.keeper.processes import CannotBeSaved, JobLostError, because_of
from steepest.keeper.tree import Tree

LEFT = 85
"""Exit status of a job that was saved and then stopped, as the SDK has it."""

_LOOK_S, _LEAST_LOOK_S = 0.1, 0.005  # how often the control folder is read, also where no change of it is reported
_TRIAL_S = 3.0  # time after a job's start when it is tried whether it can be saved, or when it has not spoken by itself
_AGAIN_S = 600.0  # time after which a job that could not be saved counts as movable again
_SNAPSHOTS_EVERY = 100  # times as long as one takes
_TRIES = {"gang": 20}  # of a passing reason, else 3: a replica may be started long after the first one
_IN_PLACE = "in-place"
_PLACES = 5  # that may differ from an image's own before an older one is restored
_HURT = frozenset({signal.SIGTRAP, signal.SIGSEGV, signal.SIGILL, signal.SIGBUS})
_HURT_S = 10.0  # after a save that was killed, a death by one of these signals is not the job's own


class Keeper:
    """Process 1 of the job's namespace.

    Args:
        order: What to do.
        wake: A descriptor that becomes readable with each signal, and then has its number.
    """

    def __init__(self, order: KeeperOrder, wake: int) -> None:
        self._order = order
        self._wake = wake
        self._asked = kernel.watch(order.control)
        self._umask = os.umask(0o077)
        self._control = Control(order.control, declares=order.rank == 0)
        self._images = Images(Path(order.checkpoints), order.job, order.zstd, order.rank)
        self._held = HeldFiles(Path(order.checkpoints).parent / (f"held-{order.rank}" if order.rank else "held"))
        self._followers = Followers(order.gang[1:] if order.rank == 0 else ())
        self._leader = Leader(order.gang[order.rank] if order.rank else None)
        self._contained = order.user is not None
        self._criu = Criu(order.criu, contained=self._contained)
        self._tree = Tree()
        self._step = -1
        self._began_s = time.time()
        self._hold: HeldImage | None = None
        self._scratch = Path(order.checkpoints, f".scratch-{order.rank}")
        self._answered = ""
        self._late = ""  # the request whose hold is over, and whose stop may still come
        self._look_at: float | None = None  # when to try, or to declare again, whether it can be saved
        self._failed = 0
        self._has_to_try = not order.auto
        self._hurt_until = 0.0
        self._snapshot_at = math.inf

    # --- from start to end --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Restore the job's image, or an older one; without one, start its command.

        Raises:
            JobLostError: The image was not restored, and it is the first time.
        """
        restore = self._order.restore
        if self._order.user is not None:
            self._control.tell_place(own_place(self._criu))
        image = restore if restore is not None and self._is_ours(restore[0]) else None
        if self._order.rank == 0:
            self._images.clear()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._held.keep(self._images.newest_first())
        lost = self._restored(*image) if image is not None else ""
        if not self._tree.root:
            if image is not None:
                self._order = self._order._replace(restore=None)
            self._start()
            self._look_at = time.monotonic() + _TRIAL_S
            if lost:
                self._control.declare("none", reason=f"restarted-from-zero: {lost}", step=0)

    def run(self) -> int:
        """Keep it to its end; return its status as from ``wait``.

        Raises:
            JobLostError: A save that was killed has ended it, or replica 0 of its gang is gone.
        """
        while (status := self._tree.reap()) is None:
            in_save = self._leader.stands and not self._leader.has_image  # a stop waits until it is known how it ends
            heard = [*self._leader.heard, *self._asked, *([] if in_save else [self._wake])]
            ready, _, _ = select.select(heard, [], [], _LOOK_S)
            if any(each in ready for each in self._asked):
                time.sleep(_LEAST_LOOK_S)  # the job may write there without end
                os.read(self._asked[0], 1 << 16)
            if self._wake in ready and bytes([signal.SIGTERM]) in os.read(self._wake, 4096):
                if self._is_saved():
                    self._tree.kill()
                    return LEFT << 8
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._tree.root, signal.SIGTERM)
            if self._order.rank == 0:
                self._look()
            elif self._leader.is_gone:
                raise JobLostError("the keeper of replica 0 has ended in a save")
            elif any(each in ready for each in self._leader.heard) and (word := self._leader.listen()) is not None:
                self._leader.answer(**self._obey(**word))
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in _HURT and time.monotonic() < self._hurt_until:
            raise JobLostError("its save was killed, and it did not survive that")
        return status

    def _start(self) -> None:
        kernel.begin_pids_at(kernel.FIRST_PID)
        self._tree.root = os.fork()
        if self._tree.root == 0:
            become_job(self._order, self._umask)

    def _is_saved(self) -> bool:
        """Whether a stop finds the job saved. One that was asked for, but comes after the hold, has it saved again."""
        if self._hold is None and self._late and not self._control.is_released(self._late) and not self._order.gang:
            try:
                self._save()
            except CannotBeSaved:
                self._continue()
                return False
            return True
        return self._hold is not None or self._leader.has_image

    # --- the control folder -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        now = time.monotonic()
        if self._hold is not None and (now >= self._hold.until or self._control.is_released(self._hold.request)):
            self._continue_after(self._hold)
        if self._order.auto and self._control.job_speaks():
            return
        if self._look_at is not None and now >= self._look_at and self._hold is None:
            self._declare()
        if now >= self._snapshot_at and self._hold is None:
            self._snapshot()
        asked = self._control.request()
        if asked is not None and asked[0] != self._answered and not self._control.is_released(asked[0]):
            self._answered = asked[0]
            self._serve(*asked)

    def _declare(self) -> None:
        """Say whether the job can be saved: by what is seen from outside; where its user demands it, by a trial."""
        self._look_at = None
        try:
            if self._has_to_try:
                self._try()
            else:
                processes.are_connected(self._connections(), contained=self._contained)
        except CannotBeSaved as why:
            self._refuse(why)
        else:
            self._has_to_try, self._failed = False, 0
            self._control.declare("system")
            if math.isinf(self._snapshot_at):
                self._wait_for_snapshot(0.0)
        finally:
            self._followers.release()

    def _try(self) -> None:
        try:
            with self._images.new("trial") as raw:
                self._dump(raw)
        finally:
            self._continue()

    def _refuse(self, why: CannotBeSaved) -> None:
        """The job runs on; it counts as unmovable for a while, unless another try may succeed."""
        self._failed += 1
        passing = why.code in PASSING and self._failed < _TRIES.get(why.code, 3)
        self._look_at = time.monotonic() + (_TRIAL_S if passing else _AGAIN_S)
        if not passing:
            self._snapshot_at = math.inf
            self._control.declare("none", reason=str(why))

    def _snapshot(self) -> None:
        """Make an image of a job, which trains on, unless a file is changed in place, which would not match it."""
        began, refused = time.monotonic(), None
        try:
            self._save(trains_on=True)
        except CannotBeSaved as why:
            self._continue()
            refused = why
        self._wait_for_snapshot(time.monotonic() - began)
        if refused is not None and refused.code != _IN_PLACE:
            self._refuse(refused)

    def _wait_for_snapshot(self, took_s: float) -> None:
        """At most one per cent of the time is for snapshots, their compression included."""
        least_s = math.inf if self._order.snapshot_s is None else self._order.snapshot_s
        self._snapshot_at = time.monotonic() + max(least_s, _SNAPSHOTS_EVERY * took_s)

    def _serve(self, request: str, hold_s: float) -> None:
        if self._hold is None:
            try:
                saved = self._save()
            except CannotBeSaved as why:
                self._continue()
                self._control.answer(request, refused=str(why))
                self._refuse(why)
                return
        else:
            saved = self._hold[2:]
        with contextlib.suppress(CannotBeSaved), self._followers.asked("hold"):
            self._hold = HeldImage(request, time.monotonic() + hold_s, *saved)
        name, step, digest, _ = saved
        self._control.answer(request, name=name, step=step, digest=digest)

    # --- save, hold, continue -----------------------------------------------------------------------------------------

    def _save(self, *, trains_on: bool = False) -> tuple[str, int, str, bool]:
        """Stop the job and make its image: name, step, digest, and whether a file is open for changes in place.

        The job is left stopped, or continues while its image is packed.

        Raises:
            CannotBeSaved: There is no image; the job may be stopped.
        """
        self._step = step = max(self._step + 1, int(self._tree.now_s()))
        name, self._has_to_try = self._images.name(step, self._order.incarnation), True
        try:
            with self._images.new(name) as raw:
                facts = self._dump(raw)
                if trains_on:
                    if facts["rewritten"]:
                        raise CannotBeSaved(_IN_PLACE, "a file is open for changes in place")
                    self._continue()
                if not self._contained:
                    self._held.hold(self._tree.pids(), name)
                _, digest = self._images.finish(
                    raw, step, self._order.incarnation, {**facts, "ran_s": self._tree.ran_s}
                )
        finally:
            with contextlib.suppress(OSError):
                self._held.keep(self._images.newest_first())
        self._has_to_try, self._failed = False, 0
        return name, step, digest, facts["rewritten"]

    def _dump(self, raw: Path) -> dict[str, Any]:
        """Let CRIU write the processes, and give what a restore must know; they are left stopped."""
        self._tree.note()
        place = self._place()
        with self._followers.asked("stop"):
            self._stand()
        before = self._connections()
        connected = processes.are_connected(before, contained=self._contained)
        with self._followers.asked("save", into=str(raw.parent)) as gang:
            facts = self._write(raw)
        if self._order.gang and self._connections() != before:
            raise CannotBeSaved("busy", "data arrived between its replicas while they stood still")
        rewritten = any(each["rewritten"] for each in (facts, *gang))
        return {**facts, "rewritten": rewritten, "connected": connected, "place": place, "gang": gang}

    def _stand(self) -> None:
        """See what must be before a save. A replica of a gang stands still from here on."""
        found = processes.others()
        if outside := processes.left_tree(self._tree.root, found):
            raise CannotBeSaved("left-tree", f"{processes.names(outside)} left the job's tree")
        self._own_connections()
        self._images.refuse_without_room(processes.memory_bytes(self._tree.pids()), self._order.most_bytes)
        if self._order.gang:
            processes.stand_still(FREEZE_S)

    def _write(self, raw: Path) -> dict[str, Any]:
        """Save this replica's processes; give what is its own of what a restore must know."""
        try:
            self._criu.dump(self._tree.root, raw)
        except CannotBeSaved as why:
            if why.code == "killed":
                self._hurt_until = time.monotonic() + _HURT_S
            raise
        pids = self._tree.pids()
        processes.refuse_dead_timer(pids)
        if self._contained:
            self._images.add_files(Path(processes.SHARED_MEMORY), raw)
        written = processes.written_files(pids)
        printing = {link: descriptor for descriptor, link in processes.links(os.getpid()) if descriptor in {1, 2}}
        used = {link for pid in pids for _, link in processes.links(pid)}
        return {
            "pipes": {link: descriptor for link, descriptor in printing.items() if link in used},
            "stopped": self._tree.stopped,
            "sizes": written.sizes,
            "rewritten": written.rewritten,
            "last_pid": max(each.pid for each in processes.others()),
        }

    def _obey(self, do: str, into: str = "") -> dict[str, Any]:
        """Do what the keeper of replica 0 says: look, stop, save, hold or continue; the answer to it."""
        try:
            match do:
                case "look":
                    return {"connections": self._own_connections()}
                case "stop":
                    self._leader.stands = True
                    self._tree.note()
                    self._stand()
                case "save":
                    raw = Path(into, f"raw-{self._order.rank}")
                    raw.mkdir()
                    facts = self._write(raw)
                    image = Path(into).name.removeprefix(".").removesuffix(".new")
                    self._held.hold(self._tree.pids(), image)
                    self._held.keep([image, *self._images.newest_first()])
                    return {**facts, "extents": self._images.pack(raw)}
                case "hold":
                    self._leader.has_image = True
                case "continue" if self._leader.stands:
                    self._leader.stands = self._leader.has_image = False
                    self._continue()
        except CannotBeSaved as why:
            return {"refused": str(why)}
        except OSError as error:
            return {"refused": str(because_of(error))}
        return {}

    def _own_connections(self) -> dict[str, str]:
        """Those of this replica, if it has nothing that cannot be saved."""
        pids = self._tree.pids()
        processes.refuse_unsavable(pids)
        if self._contained:
            processes.refuse_own_files(pids, self._began_s)
        return processes.connections(pids)

    def _connections(self) -> dict[str, str]:
        """Those of all replicas."""
        with self._followers.asked("look") as others:
            found = self._own_connections()
        for other in others:
            found |= other["connections"]
        return found

    def _place(self) -> dict[str, Any]:
        # On a machine, CRIU gives the job a clock of its own.
        clock_s = time.monotonic() if self._contained else 0.0
        return {**own_place(self._criu), "format": FORMAT, "files": self._order.files, "clock_s": clock_s}

    def _continue_after(self, hold: HeldImage) -> None:
        """The stop did not come. An image whose files change from now on would be restored onto other ones."""
        self._hold, self._late = None, hold.request
        if hold.rewritten:
            self._images.drop(hold.name)
        self._continue()

    def _continue(self) -> None:
        self._tree.open_connections()
        self._followers.release()
        self._tree.go_on()

    # --- restore ------------------------------------------------------------------------------------------------------

    def _is_ours(self, name: str) -> bool:
        """Whether a checkpoint is an image. What is not there any more was one: a job that saves by itself was asked."""
        return self._images.is_image(name) or not Path(self._order.checkpoints, name).exists()

    def _restored(self, wanted: str, digest: str) -> str:
        """Restore the image, else an older one; return why none was, or empty."""
        lost = ""
        for name in dict.fromkeys((wanted, *self._images.newest_first())):
            meeting = Meeting(self._order.gang, self._order.rank, name)
            try:
                facts = self._restore(name, digest if name == wanted else None, meeting)
            except Exception as error:  # noqa: BLE001 - else what is wrong with an image would be met at each start, for ever
                why = meeting.fail(error if isinstance(error, CannotBeSaved) else because_of(error))
                self._tree.kill()
                lost = lost or str(why)
                if name == wanted and self._may_go_elsewhere(name, why):
                    raise JobLostError(f"its image was not restored: {why}") from why
            else:
                # A newer one than the log knows is of a job whose node was lost before it was reported.
                is_older = images.age(name) < images.age(wanted)
                reason = f"restored-older: {lost}" if is_older else ""
                self._control.declare("system", reason=reason, restored=name, step=facts["step"])
                self._wait_for_snapshot(0.0)
                return ""
        return lost

    def _may_go_elsewhere(self, name: str, why: CannotBeSaved) -> bool:
        """Whether another place may have what this one lacks: the image is whole, and was not refused too often.

        Where a disk is full, an older image would not help either: this one is tried until there is room.
        """
        if why.code in {"damaged", "disk-full"}:
            return why.code == "disk-full"
        most = _PLACES if why.code.startswith("other-") else 1
        with contextlib.suppress(OSError):
            return self._images.failures(name, self._order.incarnation, str(why)) <= most
        return True

    def _restore(self, name: str, digest: str | None, meeting: Meeting) -> dict[str, Any]:
        facts = self._images.facts(name, digest)
        refuse_other_place(facts["place"], self._place())
        if len(facts["gang"]) != len(self._order.gang[1:]):
            raise CannotBeSaved("damaged", f"{name} is of {len(facts['gang']) + 1} replicas")
        if self._order.rank:
            own = facts["gang"][self._order.rank - 1]
            facts = {**facts, **own, "rewritten": facts["rewritten"]}
        scratch = self._scratch
        shutil.rmtree(scratch, ignore_errors=True)
        for folder in (scratch / "raw", scratch / "work"):
            folder.mkdir(parents=True)
        try:
            self._images.unpack(name, facts["extents"], scratch / "raw")
            if self._contained:
                self._images.take_files(scratch / "raw", Path(processes.SHARED_MEMORY))
            if not facts["rewritten"]:
                images.truncate(facts["sizes"])
            self._held.show(name)
            connected, script = facts["connected"], meeting.script(scratch)
            self._tree.root = self._criu.restore(
                scratch / "raw", scratch / "work", facts["pipes"], connected=connected, script=script
            )
            self._tree.stopped, self._tree.ran_s, self._step = facts["stopped"], facts["ran_s"], facts["step"]
            kernel.begin_pids_at(max(kernel.FIRST_PID, facts["last_pid"] + 1))
            for pid in self._tree.pids():
                if self._order.cgroup is not None:
                    Path(self._order.cgroup, "cgroup.procs").write_text(str(pid), encoding="ascii")
            meeting.wait()
            if facts["rewritten"] and self._order.rank == 0:
                self._images.drop(name)
            self._continue()
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return facts
