"""Connections between brokers, where tasks go on late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sim_process import Process
from test_sim_replication import Trio, tell


def test_a_connection_that_is_in_use_before_its_dialler_goes_on_is_kept() -> None:
    """With delays of 50 ms each ApiVersions answer is there before the task that dialled goes on."""

    async def story(trio: Trio) -> None:
        network = trio.world.network
        network.wake_up_seconds_max = 0.05
        made: Counter[tuple[str, str]] = Counter()
        connect = network.connect

        async def counted(process: Process, host: str, port: int, make: Callable[[], Any]) -> Any:
            if process.host in trio.hosts:
                made[process.host, host] += 1
            return await connect(process, host, port, make)

        network.connect = counted  # type: ignore[method-assign]
        await trio.create(min_insync_replicas="2")
        took = await trio.produce(await trio.begin("p"), 20)
        await trio.world.until(lambda: trio.ends() == [(20, 20)] * 3)
        for node in trio.followers():
            await trio.machine(node).stop()
            await trio.machine(node).start()
        await trio.whole()
        assert max(took) < 1.0
        assert made
        assert max(made.values()) <= 6, made  # one for each purpose and life

    tell(story)
