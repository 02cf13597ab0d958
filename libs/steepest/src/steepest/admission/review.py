"""An API server's question about a Job, and the answer to it, as ``admission.k8s.io/v1`` writes both."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from steepest.admission.gating import JobsVolume, JobToGate, patch
from steepest.cluster.kubernetes.objects import ObjectPart
from steepest.untrusted.json import decode

_VERSION = "admission.k8s.io/v1"
_KIND = "AdmissionReview"


class _JobRequest(ObjectPart, frozen=True):
    uid: str
    object: JobToGate


class _JobReview(ObjectPart, frozen=True, tag_field="kind", tag=_KIND):
    request: _JobRequest


def answer(asked: bytes, volume: JobsVolume) -> bytes:
    """The review with a response that admits the Job, changed by :func:`steepest.admission.gating.patch`.

    Args:
        asked: An ``AdmissionReview`` of a Job that is created, as JSON.
        volume: Where the files of the installation's jobs are.

    Raises:
        UntrustedError: It is something else.
    """
    request = decode(asked, _JobReview).request
    changes = msgspec.json.encode(patch(request.object, volume))
    response: dict[str, Any] = {
        "uid": request.uid,
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(changes).decode(),
    }
    return msgspec.json.encode({"apiVersion": _VERSION, "kind": _KIND, "response": response})
