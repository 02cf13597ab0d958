"""Keeps a copy of some objects of the API server: list, watch, resume the watch, list again where that is not possible.

It owns this loop. It must never know what the objects are for. A bookmark moves the place to resume from where nothing else
happens; the answer 410, in its status or in the stream, says that the place is too old.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Generic

import aiohttp
import msgspec

from steepest.cluster.folders.folder_watch import Pulse
from steepest.cluster.kubernetes.api import GONE, NOT_FOUND, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.objects import ClusterNode, ClusterObject, Listing, ObjectMetadata, Pod, T
from steepest.errors import ClusterError, RefusedError
from steepest.logger import Logger

_log = Logger()
WATCH_S = 300
"""How long the API server keeps a watch open."""

SILENT_S = 90.0
"""A watch without even a bookmark for this long is broken: the API server sends one a minute."""

PAGE = 500
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
ABSENT_S = 60.0
"""After this time a kind of object is looked for again that the API server did not know."""

DELETED_KEPT = 4_096
Awaited = weakref.WeakValueDictionary[str, asyncio.Event]
"""By the UID of an object or the key of a group: set when it changes."""

LINE_BYTES_MOST = 32 << 20
"""The longest line of a watch: an object has 3 MiB at most, and JSON may take six bytes for one of them."""


class WatchEvent(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Marked(msgspec.Struct):
    metadata: ObjectMetadata


class ExpiredError(Exception):
    """The place to resume from is too old."""


class Reflector(Generic[T]):
    """A copy of the objects at a path.

    Args:
        api: The API server.
        path: Of the list.
        kind: What the objects are.
        selectors: Only objects with these labels (``labelSelector``) or fields (``fieldSelector``); empty: all.
        changed: Called with each object that is new, changed or deleted.
        groups: The keys by which an object is found together with others; default: the UIDs of the objects that made it.
        awaited: Where changes are awaited, if together with those of other copies.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        kind: type[T],
        selectors: Mapping[str, str],
        changed: Callable[[T], None],
        *,
        groups: Callable[[T], Iterable[str]] | None = None,
        awaited: Awaited | None = None,
    ) -> None:
        self._api = api
        self._path = path
        self._kind: type[T] = kind
        self._query = {name: value for name, value in selectors.items() if value}
        self._changed: Callable[[T], None] = changed
        self._objects: dict[str, T] = {}
        self._deleted: dict[str, T] = {}
        self._groups: Callable[[T], Iterable[str]] = groups or owners_of
        self._grouped: dict[str, dict[str, None]] = {}  # by group, the UIDs of its objects
        self._awaited: Awaited = weakref.WeakValueDictionary() if awaited is None else awaited
        self._version = ""
        self._removals = Pulse()
        self._listed = asyncio.Event()
        self._answered = asyncio.Event()
        self._is_refused = False
        self._is_open = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_live(self) -> bool:
        """Whether the copy follows the API server now, which must know the objects' kind."""
        return self._is_open

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def listed(self, timeout_s: float) -> bool:
        """Wait for the first list; False if it has not come in time."""
        return await _is_set(self._listed, timeout_s)

    async def answered(self, timeout_s: float) -> bool:
        """Wait for the first list, or for why there is none yet; False if neither has come in time."""
        return await _is_set(self._answered, timeout_s)

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self._is_open = False

    def get(self, uid: str) -> T | None:
        """An object that exists, as far as is known."""
        return self._objects.get(uid)

    def last(self, uid: str) -> T | None:
        """The last state of an object that was deleted while it was watched; of the newest ``DELETED_KEPT`` only."""
        return self._deleted.get(uid)

    async def removed(self, uid: str, timeout_s: float) -> T | None:
        """The same, waiting until the watch has it; None if it has not come in time."""
        deadline = time.monotonic() + timeout_s
        while (found := self._deleted.get(uid)) is None and (left_s := deadline - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._removals.next_pulse().wait()
        return found

    def all(self) -> Iterable[T]:
        """All objects."""
        return self._objects.values()

    def of_group(self, key: str) -> list[T]:
        """The objects of a group; the work does not grow with the number of others."""
        return [self._objects[uid] for uid in self._grouped.get(key, ())]

    def next_change(self, key: str) -> asyncio.Event:
        """Set when the object with this UID, or one of this group, changes: get it, look, then wait, and none is missed."""
        return self._awaited.setdefault(key, asyncio.Event())

    async def _run(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            began = time.monotonic()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ExpiredError:
                self._version = ""
            except ClusterError as error:
                self._tell(error)
                self._answered.set()
                if isinstance(error, AnswerError) and error.status == NOT_FOUND:
                    self._version, self._is_open = "", False
                    await asyncio.sleep(ABSENT_S)
                    continue
            except Exception:  # noqa: BLE001 - an object may cause an error that was not anticipated
                _log.exception("watch failed once", path=self._path)
                self._version = ""
            self._is_open = False
            pause_s = FIRST_PAUSE_S if time.monotonic() - began > LONGEST_PAUSE_S else pause_s
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - so that clients do not come together
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _tell(self, error: ClusterError) -> None:
        """Log why the copy does not follow: what somebody must mend is a warning, once."""
        is_new = isinstance(error, RefusedError) and not self._is_refused
        self._is_refused = isinstance(error, RefusedError)
        if is_new:
            _log.warning("watch refused; it is asked for again and again", path=self._path, why=str(error))
        else:
            _log.info("watch interrupted", path=self._path, why=str(error))

    async def _list(self) -> None:
        found: dict[str, T] = {}
        going_on = ""
        while True:
            page: dict[str, str] = {"limit": str(PAGE), **({"continue": going_on} if going_on else {})}
            try:
                listing = await self._api.get(self._path, Listing[self._kind], {**self._query, **page})  # type: ignore[name-defined]
            except AnswerError as error:
                if error.status == GONE:
                    raise ExpiredError from error
                raise
            found |= {each.metadata.uid: each for each in listing.items}
            if not (going_on := listing.metadata.continue_):
                break
        before, self._objects, self._grouped = self._objects, found, {}
        for each in found.values():
            self._note_groups(each)
        self._version = listing.metadata.resource_version
        for uid, each in before.items():
            if uid not in found:
                self._bury(each)
        for uid, each in found.items():
            if uid not in before or before[uid].metadata.resource_version != each.metadata.resource_version:
                self._has_changed(each)
        self._is_open = True
        self._is_refused = False
        self._listed.set()
        self._answered.set()

    async def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(WATCH_S),
        }
        try:
            async with self._api.stream(self._path, query, silent_s=SILENT_S) as lines:
                self._is_open = True
                async for line in _split(lines):
                    self._take(msgspec.json.decode(line, type=WatchEvent))
        except AnswerError as error:
            if error.status == GONE:
                raise ExpiredError from error
            raise

    def _take(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            error = msgspec.json.decode(event.object, type=_Error)
            if error.code == GONE:
                raise ExpiredError(error.message)
            raise ClusterError(f"the watch of {self._path} failed: {error.message[:500]}")
        if event.type == "BOOKMARK":
            self._version = msgspec.json.decode(event.object, type=_Marked).metadata.resource_version
            return
        found = msgspec.json.decode(event.object, type=self._kind)
        self._version = found.metadata.resource_version
        if (before := self._objects.pop(found.metadata.uid, None)) is not None:
            self._forget_groups(before)  # they may have changed
        if event.type == "DELETED":
            self._bury(found)
            return
        self._objects[found.metadata.uid] = found
        self._note_groups(found)
        self._has_changed(found)

    def _bury(self, gone: T) -> None:
        self._deleted[gone.metadata.uid] = gone
        self._removals.fire()
        while len(self._deleted) > DELETED_KEPT:
            del self._deleted[next(iter(self._deleted))]
        self._has_changed(gone)

    def _note_groups(self, found: T) -> None:
        for key in self._groups(found):
            self._grouped.setdefault(key, {})[found.metadata.uid] = None

    def _forget_groups(self, gone: T) -> None:
        for key in self._groups(gone):
            if (group := self._grouped.get(key)) is not None:
                group.pop(gone.metadata.uid, None)
                if not group:
                    del self._grouped[key]

    def _has_changed(self, object_: T) -> None:
        self._changed(object_)
        for key in (object_.metadata.uid, *self._groups(object_)):
            if (awaited := self._awaited.pop(key, None)) is not None:
                awaited.set()


async def _is_set(event: asyncio.Event, timeout_s: float) -> bool:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def _split(body: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a body; what is behind the last one is no line. aiohttp's own limit is less than an object may have.

    Raises:
        ClusterError: A line is longer than any object.
    """
    begun = bytearray()
    async for chunk in body.iter_any():
        looked_at = len(begun)
        begun += chunk
        while (end := begun.find(b"\n", looked_at)) >= 0:
            yield bytes(begun[:end])
            del begun[: end + 1]
            looked_at = 0
        if len(begun) > LINE_BYTES_MOST:
            raise ClusterError(f"a line of a watch is longer than {LINE_BYTES_MOST} bytes", code="too-long")


def owners_of(made: ClusterObject) -> list[str]:
    """The UIDs of the objects that have made an object."""
    return [owner.uid for owner in made.metadata.owner_references]


def label_group(name: str, value: str) -> str:
    """The key of the objects with a label, which is no UID."""
    return f"{name}={value}"


def labelled(labels: Mapping[str, str]) -> dict[str, str]:
    """The selector of objects with these labels."""
    return {"labelSelector": ",".join(f"{name}={value}" for name, value in labels.items())}


PodReflector = Reflector[Pod]
NodeReflector = Reflector[ClusterNode]
