"""An API server's question about a user's object, and the answer to it, as ``admission.k8s.io/v1`` writes both."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from steepest.admission.gating import JobsVolume, JobToGate, Part, patch, patch_of_other
from steepest.cluster.kubernetes.kinds.known import JOB, OTHERS
from steepest.cluster.kubernetes.objects import ObjectPart
from steepest.errors import InputError, UntrustedError
from steepest.untrusted.json import decode

_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"


class _KindAsked(ObjectPart, frozen=True):
    kind: str = JOB.name


class _GateRequest(ObjectPart, frozen=True):
    uid: str
    object: msgspec.Raw
    kind: _KindAsked = _KindAsked()


class _GateReview(ObjectPart, frozen=True, tag_field="kind", tag=_KIND):
    request: _GateRequest


def answer(asked: bytes, volume: JobsVolume) -> bytes:
    """The review with a response that admits the object, changed as :mod:`steepest.admission.gating` says for its kind.

    Args:
        asked: An ``AdmissionReview`` of an object that is created, as JSON.
        volume: Where the files of the installation's jobs are.

    Raises:
        UntrustedError: It is something else.
    """
    request = decode(asked, _GateReview).request
    changes = msgspec.json.encode(_patch(request, volume))
    response: dict[str, Any] = {
        "uid": request.uid,
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(changes).decode(),
    }
    return msgspec.json.encode({"apiVersion": _VERSION, "kind": _KIND, "response": response})


def _patch(request: _GateRequest, volume: JobsVolume) -> list[Part]:
    if request.kind.kind == JOB.name:
        return patch(decode(bytes(request.object), JobToGate), volume)
    if (kind := OTHERS.get(request.kind.kind)) is None:
        raise UntrustedError(f"{request.kind.kind[:50]!r} is no kind that is gated")
    try:
        return patch_of_other(kind, decode(bytes(request.object), dict[str, Any]), volume)
    except InputError as error:
        raise UntrustedError(str(error)) from error
