"""The timeline over HTTP: now, as it was before any record, and only for a time that there is."""

from __future__ import annotations

import httpx2
from tests.unit.gateway.in_memory import gateway, log_of, served_pool

from steepest.events import cluster as c


def placed(job: str) -> list[c.ClusterEvent]:
    """A job that runs on the node."""
    plan = f"plan-{job}"
    because = c.Because(rule="a test says so")
    return [
        c.JobSubmitted(job=job, request=f"r-{job}", spec=c.JobSpec(command=("true",), checkpoint_mode=None)),
        c.PlacementPlanned(plan=plan, job=job, incarnation=0, nodes=("n1",), because=because),
        c.StepBegun(plan=plan, step=c.Step.START, attempt=1, job=job, incarnation=1, node="n1"),
        c.JobPlaced(plan=plan, attempt=1, job=job, incarnation=1, node="n1"),
    ]


async def test_it_is_answered_now_and_as_it_was() -> None:
    """A job runs from its placement on, and waits until that is planned."""
    log = await log_of(*placed("a"))
    async with served_pool(log) as pool, gateway(pool) as here, httpx2.AsyncClient() as http:
        address = f"{here.address}/api/v1/timeline"
        now, before = [
            (await http.get(address, params=query)).json() for query in ({}, {"at": pool.feed.view.position - 3})
        ]
        wrong = await http.get(address, params={"from": 2_000, "to": 1_000})
        narrow = await http.get(address, params={"width": 5})

    assert [[one["job"] for one in answer["jobs"]] for answer in (now, before)] == [["a"], ["a"]]
    assert (now["runs"]["t1"], before["runs"]["t1"]) == ([None], [])
    assert (now["waits"]["t1"], before["waits"]["t1"]) == ([0], [None])
    assert [node["node"] for node in now["nodes"]] == ["n1"]
    assert (wrong.status_code, narrow.status_code) == (400, 400)
    assert "before it begins" in wrong.json()["message"]
