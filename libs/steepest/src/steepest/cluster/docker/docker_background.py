"""The background tasks of the Docker adapter: receive events, observe, measure, copy output.

It must never start a container, and removes a container only after it has ended and its end and output are recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from steepest.cluster.docker.container import container_of, name_of, recorded
from steepest.cluster.docker.events import Events
from steepest.cluster.docker.host import LOOK_S, PING_S, Host
from steepest.cluster.docker.kept import layers_under
from steepest.cluster.docker.launch import remove
from steepest.cluster.docker.observe import observe, present
from steepest.cluster.docker.output import Output, complete
from steepest.cluster.docker.stats import Stats
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.folders.background import AdapterSettings, Background
from steepest.cluster.folders.replica_roster import Roster, Tracked, isolated
from steepest.cluster.nvml import MachineGpus
from steepest.cluster.observation import Observation, record, recorded_end
from steepest.errors import ClusterError
from steepest.events.common import KeeperFacts
from steepest.logger import Logger

_log = Logger()
_LOOK_AT_ALL_S = 10.0  # a safety net: no event should get lost while its stream is open
_PATIENCE_S = 2.0  # for an engine, while all others wait for it
_IMAGES_MOST = 50


class DockerTracked(Tracked):
    """One incarnation as a container."""

    @functools.cached_property
    def container(self) -> str | None:
        """Its id. Read it only after the container was started: the result is cached."""
        return container_of(self.folder)


class DockerBackground(Background[DockerTracked]):
    """The adapter's background tasks. Create it in a running loop, after the roster was loaded.

    Args:
        hosts: Node to engine.
        label: The label of this state folder's containers.
        gpus: What is known of this machine's GPUs; None: nothing.
        counts_reads: Whether what a container receives is what it reads from the pool's storage.
        has_keepers: Whether jobs may have keepers.
        image: The default image.
    """

    def __init__(
        self,
        settings: AdapterSettings,
        roster: Roster[DockerTracked],
        hosts: Mapping[str, Host],
        label: str,
        *,
        gpus: MachineGpus | None = None,
        counts_reads: bool = False,
        has_keepers: bool = False,
        image: str = "",
    ) -> None:
        super().__init__(settings, roster, gpus)
        self._image = image
        self._images: dict[str, tuple[tuple[str, str], ...]] = {}  # by node
        self._has_keepers = has_keepers
        self._counts_reads = counts_reads
        self._hosts = hosts
        self._label = label
        self._loop = asyncio.get_running_loop()
        self._doubtful: dict[str, None] = {}  # names of containers with an event since they were observed
        self._stale: dict[str, float] = dict.fromkeys(hosts, 0.0)  # node: when to observe all of its containers
        self._present: dict[str, dict[str, str]] = {}
        self._unfinished: list[DockerTracked] = []
        self._stats: dict[str, Stats] = {}
        self._outputs: dict[str, Output] = {}
        self._events: dict[str, Events] = {}
        self._pings: list[asyncio.Task[None]] = []
        self._pinged = {node: asyncio.Event() for node in hosts}
        self._looks: dict[str, asyncio.Task[list[tuple[DockerTracked, Observation]]]] = {}
        self._finishing: asyncio.Future[list[None]] | None = None

    async def open(self) -> None:
        """Observe everything, and subscribe to the engines' events."""
        self._pings = [asyncio.create_task(self._ping_loop(node)) for node in self._hosts]
        await asyncio.gather(*(self._pinged[node].wait() for node in self._hosts))
        for node, host in self._hosts.items():
            if not host.is_up:
                _log.warning("engine does not answer", node=node, url=host.node.url)
            self._events[node] = Events(host, self._label, self._event_handler(node))
        await self.look()
        self.start()

    def keeper_facts(self, node: str) -> KeeperFacts | None:
        """See ``Background.keeper_facts``: what the engine has said of its machine, and keepers there."""
        said = self._hosts[node].keeper if self._has_keepers else None
        if said is not None:
            said = msgspec.structs.replace(said, images=self._images.get(node, ()))
        return self._as_keepers_see(node, said)

    async def close(self) -> None:
        """See ``Background.close``."""
        background: list[asyncio.Future[Any]] = [*self._pings, *self._looks.values()]
        background += [] if self._finishing is None else [self._finishing]
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await super().close()
        followers: list[Events | Stats | Output] = [*self._events.values(), *self._stats.values()]
        for follower in [*followers, *self._outputs.values()]:
            follower.close()
        for host in self._hosts.values():
            host.close()

    def answers(self, node: str) -> bool:
        """Whether the node's engine answers: otherwise the state of its containers is unknown."""
        return node in self._hosts and self._hosts[node].is_up

    def doubt(self, tracked: DockerTracked) -> None:
        """Observe a replica again soon."""
        self._doubtful[name_of(self._label, tracked.folder)] = None
        self.watch.pulse.fire()

    # --- looking ------------------------------------------------------------------------------------------------------

    async def see(self) -> list[DockerTracked]:
        """Observe the containers that had events or have not started; all of a node where events may have been missed.

        An engine that answers late keeps the others waiting for a short time only. Its answer is read by a later call.
        """
        begun = {
            node: asyncio.create_task(self._see_host(node, host))
            for node, host in self._hosts.items()
            if host.is_up and node not in self._looks
        }
        self._looks |= begun
        patience_s = _PATIENCE_S if self._tasks else LOOK_S  # the first heartbeats list what runs
        for late in (await asyncio.wait(begun.values(), timeout=patience_s))[1] if begun else ():
            late.add_done_callback(lambda _: self.watch.pulse.fire())
        done = [self._looks.pop(node) for node, look in list(self._looks.items()) if look.done()]
        known = [(tracked, seen) for look in done for tracked, seen in look.result() if not tracked.seen.ended]
        looked_at = [tracked for tracked, _ in known]
        known += [(each, each.seen) for each in self.roster.all() if not each.seen.ended and each not in looked_at]
        return await asyncio.to_thread(_note_all, known)

    async def _see_host(self, node: str, host: Host) -> list[tuple[DockerTracked, Observation]]:
        now = time.monotonic()
        is_stale = self._stale[node] <= now
        mine = {name_of(self._label, each.folder): each for each in self.roster.on(node) if not each.seen.ended}
        doubtful = [name for name in mine if name in self._doubtful]
        try:
            if is_stale:
                self._stale[node] = now + _LOOK_AT_ALL_S
                self._present[node] = await host.run(lambda: present(host, self._label))
                if self._has_keepers:
                    tracked = self.roster.all()
                    self._images[node] = await host.run(lambda: self._images_on(host, tracked))
            looked = [
                name
                for name, each in mine.items()
                if name in doubtful
                or not each.seen.began
                or (is_stale and self._present[node].get(name) not in {"running", "paused"})
            ]
            for name in doubtful:
                del self._doubtful[name]
            done = await asyncio.gather(*(self._see_one(host, mine[name]) for name in looked))
        except Exception as error:  # noqa: BLE001 - an engine may say anything, which concerns no other one
            _log.info("node not observed", node=node, why=repr(error))
            self._stale[node] = 0.0
            return []
        return [(mine[name], observation) for name, observation in zip(looked, done, strict=True)]

    def _images_on(self, host: Host, tracked: Iterable[DockerTracked]) -> tuple[tuple[str, str], ...]:
        """The layers on a node of each image that jobs with keepers use, unless a job there runs on other ones.

        Raises:
            UncertainError: The engine does not answer.
        """
        keep = [(each, layers) for each in tracked if (layers := layers_under(each.folder))]
        used = [(each, record.image, layers) for each, layers in keep if (record := recorded(each.folder))]
        names = sorted({image for _, image, _ in used})[:_IMAGES_MOST]
        found = {name: host.layers(name or self._image) for name in names}
        for each, image, layers in used:
            if each.node == host.node.name and each.runs and found.get(image) != layers:
                found.pop(image, None)
        return tuple(found.items())

    async def _see_one(self, host: Host, tracked: DockerTracked) -> Observation:
        """The observation of one incarnation; the last one again if an error of its own prevents another.

        Raises:
            ClusterError: The engine does not answer.
        """
        found = [tracked.seen]
        with isolated(tracked.folder, reraise=(ClusterError,)):
            found.append(await host.run(lambda: observe(host, tracked.folder, self._label)))
        return found[-1]

    def _event_handler(self, node: str) -> Callable[[str | None], None]:
        def happened(name: str | None) -> None:
            if name is None:
                self._stale[node] = 0.0
            else:
                self._doubtful[name] = None
            self.watch.pulse.fire()

        def hear(name: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
                self._loop.call_soon_threadsafe(happened, name)

        return hear

    async def _ping_loop(self, node: str) -> None:
        """Ping an engine every heartbeat period. When it comes back, renew its streams: they may be dead silently."""
        host = self._hosts[node]
        while True:
            was_up, ping = host.is_up, asyncio.ensure_future(host.run(host.ping))
            if not (await asyncio.wait([ping], timeout=2 * PING_S))[0]:
                was_up = False
                host.lose()
            self._pinged[node].set()
            if await ping and not was_up:
                if (events := self._events.get(node)) is not None:
                    events.renew()
                self._stale[node] = 0.0
                self.watch.pulse.fire()
            await asyncio.sleep(self._heartbeat_s)

    # --- ends ---------------------------------------------------------------------------------------------------------

    async def finish(self, ended: DockerTracked) -> None:
        """See ``Background.finish``. If it fails, it is retried with every measurement."""
        try:
            if recorded_end(ended.folder) is None or self._is_present(ended):
                await self.put_on_record(ended.node, ended.folder, ended.container, ended.seen)
        except Exception as error:  # noqa: BLE001 - a job may cause an error that was not anticipated
            _log.warning("container not removed yet", incarnation=str(ended.folder), why=repr(error))
            self._unfinished.append(ended)

    async def put_on_record(
        self, node: str, folder: IncarnationFolder, container: str | None, seen: Observation
    ) -> None:
        """Copy the rest of an ended incarnation's output, record how it ended, and remove its container.

        Raises:
            Exception: The container stays, with all its data.
        """
        host = self._hosts.get(node)
        if (output := self._outputs.get(name_of(self._label, folder))) is not None:
            output.close()  # it may be pausing
        if host is not None and container is not None:
            await host.run(lambda: self._put_on_record(host, folder, container, seen))

    def _put_on_record(self, host: Host, folder: IncarnationFolder, container: str, seen: Observation) -> None:
        with incarnation_locks.held(self._state.locks / folder.replica.job):
            if container_of(folder) != container:
                return  # the job was forgotten, and another job of the same name has started
            complete(host, folder, container)
            record(folder, seen)
            if recorded_end(folder) is None:
                raise OSError(f"the end of {folder} is not on record")
            remove(host, container, self._label)

    def _is_present(self, tracked: DockerTracked) -> bool:
        return name_of(self._label, tracked.folder) in self._present.get(tracked.node, {})

    def unwatch(self, tracked: DockerTracked) -> None:
        """See ``Background.unwatch``."""
        super().unwatch(tracked)
        name = name_of(self._label, tracked.folder)
        if (stats := self._stats.pop(name, None)) is not None:
            stats.close()

    # --- measuring ----------------------------------------------------------------------------------------------------

    async def measure(self) -> None:
        """Take the newest samples of running containers, and follow new ones, while the heartbeats have a consumer."""
        running = [each for each in self.roster.running() if self.answers(each.node)]
        for tracked in running if self._listeners else ():
            with isolated(tracked.folder):
                self._measure_one(tracked)
        await asyncio.to_thread(_read_reports, running)
        for name in [name for name, output in self._outputs.items() if output.is_over]:
            del self._outputs[name]
        if self._finishing is None or self._finishing.done():
            again, self._unfinished = self._unfinished, []
            self._finishing = asyncio.gather(*(self.finish(ended) for ended in again))

    def _measure_one(self, tracked: DockerTracked) -> None:
        name = name_of(self._label, tracked.folder)
        host = self._hosts[tracked.node]
        if (output := self._outputs.get(name)) is None or output.is_over:
            self._outputs[name] = Output(host, tracked.folder, name)
        if (stats := self._stats.get(name)) is None or stats.is_over:
            self._stats[name] = stats = Stats(host, name)
        tracked.use = use = stats.use()
        if not self._counts_reads:
            tracked.use = msgspec.structs.replace(use, read_bytes=None)


def _note_all(known: Iterable[tuple[DockerTracked, Observation]]) -> list[DockerTracked]:
    """Record observations; return the incarnations that changed."""
    changed = []
    for tracked, seen in known:
        with isolated(tracked.folder):
            if seen.began:
                _ = tracked.container  # caches the id while the folder certainly belongs to this incarnation
            if tracked.note(seen):
                changed.append(tracked)
    return changed


def _read_reports(running: Iterable[DockerTracked]) -> None:
    for tracked in running:
        with isolated(tracked.folder):
            tracked.tail.read()
