"""Observes an incarnation through the records in its folder and the state of its container.

It owns the proof behind each phase and must never guess. Its calls block.

=============  =====================  ==============  ===========================================================
exit/gone.json container              container.json  phase
=============  =====================  ==============  ===========================================================
there          –                      –               ``EXITED`` / ``GONE``
–              runs, or is paused     –               ``RUNNING``
–              has ended              –               ``EXITED``; ``GONE`` where the engine ended it by being
                                                      stopped, or did not see how it ended
–              created, never started –               ``STARTING``: it never ran; a start completes it
–              not there              –               ``STARTING``: likewise
–              not there              there           ``GONE``: a user removed it, which ends it
=============  =====================  ==============  ===========================================================

If the engine does not answer, or another engine answers in its place, the state is unknown.
"""

from __future__ import annotations

import contextlib

from docker.errors import NotFound

from steepest.cluster.docker.container import LABEL, ContainerRecord, name_of, observed, ours, record_of
from steepest.cluster.docker.host import LOOK_S, Host
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.observation import Observation, end, kept_end, recorded_end
from steepest.cluster.observation import record as record_end
from steepest.cluster.port import ReplicaPhase
from steepest.errors import UncertainError


def observe(host: Host, folder: IncarnationFolder, label: str) -> Observation:
    """The state of an incarnation whose folder exists.

    Raises:
        UncertainError: Its engine does not answer, or another one answers at its address.
    """
    if (ended := recorded_end(folder)) is not None:
        return ended
    try:
        with host.looking():
            container = ours(host.client(LOOK_S), name_of(label, folder), label)
            return kept_end(folder, observed(container["State"], lambda: host.outlived(container["Id"])))
    except NotFound:
        return _without_container(host, folder)


def _without_container(host: Host, folder: IncarnationFolder) -> Observation:
    # Another adapter may have recorded the end after the first check, and removed the container before the second.
    if (ended := recorded_end(folder)) is not None:
        return ended
    record = folder.read(record_of(folder), ContainerRecord)
    if record is None:
        return Observation(phase=ReplicaPhase.STARTING, began=False)
    # A container may also have been created and recorded between the two: only a look after reading the record is proof.
    with contextlib.suppress(NotFound), host.looking():
        container = host.client(LOOK_S).inspect_container(record.id)
        return observed(container["State"], lambda: host.outlived(record.id))
    if (ended := recorded_end(folder)) is not None:
        return ended
    if record.engine != host.info(refresh=True).id:
        raise UncertainError(
            f"{host} is not the one that {folder} was started on",
            code="another-engine",
            hint="start the engine with the folder (data-root) that it had",
        )
    return record_end(folder, end(None, "its container was removed"))


def present(host: Host, label: str) -> dict[str, str]:
    """The names of this state folder's containers on an engine, with their states as the engine names them.

    Raises:
        UncertainError: The engine does not answer.
    """
    with host.looking():
        found = host.client(LOOK_S).containers(all=True, filters={"label": f"{LABEL}={label}"})
    return {name.lstrip("/"): each["State"] for each in found for name in each["Names"]}
