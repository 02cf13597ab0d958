"""What the client of the API server does once it was closed."""

from __future__ import annotations

import pytest

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.errors import ClusterError


@pytest.mark.parametrize(("method", "definite"), [("PATCH", True), ("GET", False)])
async def test_a_closed_client_sends_nothing(method: str, definite: bool) -> None:  # noqa: FBT001 - a case
    """Nothing would close the connection that a late request opens."""
    api = KubernetesApi()
    await api.close()

    with pytest.raises(ClusterError, match=f"{method} /api was not sent: the connection was closed") as failure:
        await api.request(method, "/api")
    assert failure.value.definite is definite
