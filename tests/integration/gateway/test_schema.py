"""The API answers as its own document says: schemathesis makes the requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route
from tests.integration.gateway.served import ServedFolder

from steepest.clock import SystemClock
from steepest.gateway.access import AccessRole, Grants
from steepest.gateway.api import Api
from steepest.gateway.metrics import GatewayMetrics
from steepest.gateway.openapi import OPERATIONS, document
from steepest.gateway.pools import Served

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
schema = schemathesis.openapi.from_dict(document())
answering = schema.exclude(path="/api/v1/live")


@answering.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_answers_as_described(case: schemathesis.Case[Any], served_once: ServedFolder) -> None:
    """No request makes it fail, and no answer is one that the document does not describe; with a token that may do all."""
    headers = {"Authorization": f"Bearer {served_once.token}"}
    case.call_and_validate(base_url=served_once.address, headers=headers, checks=CHECKS, timeout=60)


def test_the_document_describes_the_routes() -> None:
    """Each route is an operation, and each operation a route."""
    nothing = Served(pools={}, clock=SystemClock())
    class_routes = Api(nothing, Grants({}, AccessRole.READ), GatewayMetrics(), 10).routes()
    routes = {(str(route.path), method) for route in class_routes for method in _methods(route)}

    assert routes == {(f"/api/v1{one.path}", one.method.upper()) for one in OPERATIONS}


def _methods(route: Route) -> list[str]:
    return [method for method in sorted(route.methods or ()) if method != "HEAD"]


@pytest.fixture(scope="module", autouse=True)
def _still_there(served_once: ServedFolder) -> Iterator[None]:
    """Nothing that was asked has stopped the gateway."""
    yield
    assert served_once.stop() == 0
