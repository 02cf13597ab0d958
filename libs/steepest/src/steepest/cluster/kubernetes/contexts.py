"""The API server of a kube context, as a user's kubeconfig describes it.

It owns which files are read, which context and namespace are meant, and that the server's certificate is verified. It sends
no request itself; the client (kubernetes-asyncio) reads credentials, and runs the program that a context names for them.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from steepest.errors import InputError

FILE_MOST = 4 << 20
"""Bytes of a kubeconfig: certificates within it take some kilobytes each."""

_DEFAULT = "~/.kube/config"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SHOWN = 200

_WRONG = (ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, AssertionError, RecursionError)
"""The client's errors for a file that is no kubeconfig, besides YAML's own error."""


class KubeContext(msgspec.Struct, frozen=True, kw_only=True):
    """How a user reaches one namespace of a cluster.

    Attributes:
        name: The context's.
        server: The API server's address: ``https://`` and no slash at its end.
        namespace: The namespace.
        authorization: The value of the header ``Authorization``; empty: a certificate says who asks.
        tls: What verifies the server's certificate, and has the user's.
        server_name: The name in the server's certificate; empty: that of its address.
        proxy: The address of the proxy that the context names; empty: none.
    """

    name: str
    server: str
    namespace: str
    authorization: str
    tls: ssl.SSLContext
    server_name: str = ""
    proxy: str = ""

    def __repr__(self) -> str:
        return f"context {self.name} ({self.server}, namespace {self.namespace})"


def read_context(asked: str = "", files: str | None = None) -> KubeContext:
    """Read a context, and get its credentials. It blocks, and may run the program that the context names for them.

    Args:
        asked: ``CONTEXT``, ``CONTEXT/NAMESPACE`` or ``/NAMESPACE``; empty parts are the current context and its namespace.
            The name of a context may contain slashes: a name that is there is taken as it is.
        files: The paths of kubeconfigs, with colons between them; None: ``KUBECONFIG``, or the user's default file.

    Raises:
        InputError: There is no kubeconfig or no such context, one of them is wrong, or it does not verify its server.
    """
    named = files or os.environ.get("KUBECONFIG") or _DEFAULT
    _refuse_others(named)
    try:
        content = KubeConfigMerger(named).config
        contexts = {each["name"]: each.value["context"] for each in content.value["contexts"]}  # type: ignore[union-attr]
        name, namespace = _chosen(asked, contexts, content.value.get("current-context"), named)  # type: ignore[union-attr]
        namespace = namespace or contexts[name].get("namespace") or "default"
        loader = KubeConfigLoader(config_dict=content, active_context=name, config_base_path=None)
        configuration = Configuration()
        asyncio.run(loader.load_and_set(configuration))
        return _context(name, namespace, configuration, getattr(loader, "proxy", ""))
    except InputError:
        raise
    except (*_WRONG, yaml.YAMLError, aiohttp.ClientError) as error:
        why = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
        raise InputError(
            f"the kubeconfig {named[:_SHOWN]} cannot be used: {why}", code="bad-kubeconfig", hint="kubectl config view"
        ) from error


def _refuse_others(named: str) -> None:
    """Return only if there is a kubeconfig, and what is there are files of a size that one has.

    Raises:
        InputError: It is otherwise.
    """
    found = False
    for each in filter(None, named.split(os.pathsep)):
        try:
            state = Path(os.path.expanduser(each)).stat()  # noqa: PTH111 - as the client does: no home is no error
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise InputError(
                f"the kubeconfig {each[:_SHOWN]!r} cannot be read: {why}", code="bad-kubeconfig"
            ) from error
        if not stat.S_ISREG(state.st_mode) or state.st_size > FILE_MOST:
            why = f"is longer than {FILE_MOST} bytes" if stat.S_ISREG(state.st_mode) else "is no file"
            raise InputError(f"the kubeconfig {each[:_SHOWN]} {why}", code="bad-kubeconfig", hint="set KUBECONFIG")
        found = True
    if not found:
        raise InputError(
            f"there is no kubeconfig: {named[:_SHOWN]} is not there",
            code="no-kubeconfig",
            hint="set KUBECONFIG, or name a gateway by its address",
        )


def _chosen(asked: str, contexts: Mapping[str, Any], current: Any, files: str) -> tuple[str, str]:
    """The name of the context, and the namespace that is asked for; empty: the context's own."""
    name, namespace = asked, ""
    if asked not in contexts and "/" in asked:
        name, _, namespace = asked.rpartition("/")
    name = name or current or ""
    if name in contexts:
        return name, namespace
    if not name:
        message, hint = "no context is the current one", "kubectl config use-context NAME, or name one: kube:NAME"
    else:
        message, hint = f"there is no context {name[:_SHOWN]!r}", f"there are {', '.join(map(str, contexts)) or 'none'}"
    raise InputError(f"{message} in {files[:_SHOWN]}", code="no-such-context", hint=hint[:1000])


def _context(name: str, namespace: str, configuration: Configuration, proxy: str) -> KubeContext:
    """The context, with credentials.

    Raises:
        InputError: It does not verify the server, or the namespace is no name.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(f"{namespace[:_SHOWN]!r} is no name of a namespace", hint="write kube:CONTEXT/NAMESPACE")
    server = configuration.host or ""
    if not server.startswith("https://") or configuration.verify_ssl is not True:
        raise InputError(
            f"the context {name} does not verify its server, and a token is sent to no server that is not verified",
            code="not-verified",
            hint="give the context https:// and certificate-authority, and take insecure-skip-tls-verify away",
        )
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file, password=lambda: "")
    return KubeContext(
        name=name,
        server=server.rstrip("/"),
        namespace=namespace,
        authorization=configuration.api_key.get("BearerToken", ""),
        tls=tls,
        server_name=configuration.tls_server_name or "",
        proxy=proxy or "",
    )
