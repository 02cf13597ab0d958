"""Faults injected into a running system, by a seeded schedule.

Services are killed, the broker is killed or stopped for a while, the system is stopped and started again, and topics are cut
off behind what was read.

It owns the schedule. It must never check the system's results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal

from tests.chaos.retention import Retention
from tests.chaos.system import KafkaSystem

from steepest.log.kafka.broker import Broker

ASLEEP_S = 8.0
"""Longer than a group's session: its members are taken for dead, or the broker takes them for it."""


class Harm:
    """A schedule at work.

    Attributes:
        kills: Services killed, by module.
        faults: Faults of the broker.
        restarts: Times that the system was stopped, lost the heads of its topics, and was started again.
    """

    def __init__(self, seed: int, system: KafkaSystem, broker: Broker, retention: Retention) -> None:
        self.kills: dict[str, int] = {}
        self.faults: list[str] = []
        self.restarts = 0
        self._random = random.Random(seed)
        self._system = system
        self._broker = broker
        self._retention = retention

    async def do(self, kills: int, faults: int) -> None:
        """Kill that many services one by one, with that many broker faults in between.

        The system is restarted midway between two faults; from the first restart on, retention runs after each fault.
        """
        when = {round((each + 1) * kills / (faults + 1)) for each in range(faults)}
        between = {round((each + 0.5) * kills / (faults + 1)) for each in range(faults + 1)}
        for number in range(kills):
            await asyncio.sleep(self._random.uniform(0.2, 1.2))
            await self._kill_one()
            if number in when:
                await self._harm_broker()
                await self._retention.work()
            if number in between:
                await self._restart()

    async def _kill_one(self) -> None:
        while True:
            running = sorted(self._system.services().items(), key=lambda item: (item[1], item[0]))
            if running:
                pid, module = self._random.choice(running)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.kills[module] = self.kills.get(module, 0) + 1
                    return
            await asyncio.sleep(0.1)

    async def _restart(self) -> None:
        """A clean restart. A service that is stopped before it has read its log keeps no snapshot, so all must be ready."""
        await self._system.until_ready()
        status = await asyncio.to_thread(self._system.stop)
        assert status == 0, self._system.output()
        await self._retention.work()
        await self._system.start()
        self.restarts += 1

    async def _harm_broker(self) -> None:
        if len(self.faults) % 2 == 0:
            self.faults.append("SIGSTOP")
            os.kill(self._broker.pid, signal.SIGSTOP)
            await asyncio.sleep(ASLEEP_S)
            os.kill(self._broker.pid, signal.SIGCONT)
        else:
            self.faults.append("SIGKILL")
            await asyncio.to_thread(self._broker.stop, signal.SIGKILL)
            await asyncio.sleep(self._random.uniform(0, 2))
            await asyncio.to_thread(self._broker.start)
