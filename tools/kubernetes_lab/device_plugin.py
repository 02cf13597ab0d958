"""A device plugin: it advertises test devices to one kubelet, which then gives them to containers as it gives GPUs.

It owns the devices' health. It must never know which pod has which: that is the kubelet's. It speaks the kubelet's device
plugin API, ``v1beta1``, over a socket among the kubelet's plugins, where the kubelet finds it
(https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from steepest.cluster.kubernetes.nodes.selected_nodes import GPU
from tools.kubernetes_lab.layout import LabFolder, LabNode

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""The variable that names a container's devices, as NVIDIA's plugin has it."""

_VERSION = "v1beta1"
_CALLS = 8
_WAIT_S = 1.0
_LENGTH = 2  # the wire type of what has its length before it


class DevicePlugin:
    """The devices of one node.

    Args:
        folder: The lab's.
        node: The node, whose kubelet runs.
        devices: Their ids.
    """

    def __init__(self, folder: LabFolder, node: LabNode, devices: Sequence[str]) -> None:
        self._health = dict.fromkeys(devices, True)
        self._changed = threading.Condition()
        self._changes, self._ends = 0, False
        self._registered = threading.Event()
        self.socket = folder.node(node) / "kubelet" / "plugins_registry" / "gpu.sock"
        self._server = grpc.server(ThreadPoolExecutor(_CALLS))
        registration = {"GetInfo": self._info, "NotifyRegistrationStatus": self._note}
        plugin = {"GetDevicePluginOptions": _nothing, "Allocate": _allocate, "PreStartContainer": _nothing}
        handlers = {name: _answers(call) for name, call in plugin.items()}
        handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(self._states)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    "pluginregistration.Registration", {name: _answers(call) for name, call in registration.items()}
                ),
                grpc.method_handlers_generic_handler(f"{_VERSION}.DevicePlugin", handlers),
            )
        )

    def start(self, patience_s: float) -> None:
        """Serve, and wait until the kubelet has taken it in.

        Raises:
            TimeoutError: The kubelet did not in time.
        """
        self.socket.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()
        if not self._registered.wait(patience_s):
            raise TimeoutError(f"the kubelet of {self.socket} did not register it")

    def set_health(self, device: str, *, healthy: bool) -> None:
        """A device fails, or works again."""
        with self._changed:
            self._health[device] = healthy
            self._changes += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop: its devices are unhealthy then, as the kubelet sees them."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        self.socket.unlink(missing_ok=True)
        self._server.stop(None).wait()

    def _info(self, _: bytes) -> bytes:
        words = ["DevicePlugin", GPU, str(self.socket), _VERSION]
        return b"".join(_field(number, word.encode()) for number, word in enumerate(words, 1))

    def _note(self, _: bytes) -> bytes:
        self._registered.set()
        return b""

    def _states(self, _: bytes, context: Any) -> Iterator[bytes]:
        seen = -1
        while context.is_active() and not self._ends:
            with self._changed:
                if seen == self._changes:
                    self._changed.wait(_WAIT_S)
                    continue
                seen = self._changes
                states = dict(self._health)
            yield b"".join(
                _field(1, _field(1, device.encode()) + _field(2, b"Healthy" if healthy else b"Unhealthy"))
                for device, healthy in states.items()
            )


def _answers(call: Callable[[bytes], bytes]) -> Any:
    def answer(request: bytes, _: object) -> bytes:
        return call(request)

    return grpc.unary_unary_rpc_method_handler(answer)


def _nothing(_: bytes) -> bytes:
    return b""


def _allocate(request: bytes) -> bytes:
    """The variable with the ids, for each container of a pod."""
    answers = []
    for container in _fields(request):
        ids = b",".join(_fields(container))
        answers.append(_field(1, _field(1, _field(1, VISIBLE.encode()) + _field(2, ids))))
    return b"".join(answers)


def _field(number: int, content: bytes) -> bytes:
    """A field of a message (https://protobuf.dev/programming-guides/encoding)."""
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _fields(message: bytes) -> Iterator[bytes]:
    """The contents of a message's fields, all of which have a length and the number 1."""
    at = 0
    while at < len(message):
        at, length, shift = at + 1, 0, 0
        while True:
            byte = message[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:  # noqa: PLR2004 - the last one
                break
        yield message[at : at + length]
        at += length
