"""Followers that are slow or stand still, and a client that sends all it has, and again what is refused.

The invariant: a record is appended once for each time that it was sent, and sent again only because its
leader was another, or its timeout was over. A leader that answers early what may still be replicated has the
client append everything many times over; one that takes in all that comes has appends time out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sim_client import RETRIABLE, Disconnected
from sim_world import World, simulate
from test_sim_replication import Trio

from moldau.broker.server.commit_backlog import SHARE_BYTES
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record

PLACE = ("t", 0)
RECORD_BYTES = 200_000
TIMEOUT_MS = 30_000
VERSION = 9


class Flood:
    """A producer without an id and without a limit of requests in flight."""

    def __init__(self, trio: Trio, count: int, timeout_ms: int = TIMEOUT_MS) -> None:
        self.client = trio.client("floods")
        self.count = count
        self.timeout_ms = timeout_ms
        self.appended_at_most = 0
        """Requests that may have been appended: all but those refused before that."""
        self.errors: dict[str, int] = {}
        self.done = 0

    async def run(self) -> None:
        todo = list(range(self.count))
        while todo:
            try:
                channel = await self.client.channel(await self.client.leader_of(PLACE))
            except Disconnected:  # it has asked one that stands still where the leader is
                continue
            flying = [(each, channel.send(self._request(each), VERSION, "floods")) for each in todo]
            todo = [each for each, future in flying if not self._taken(await future)]
            if todo:
                await self.client.pause()

    def _request(self, number: int) -> ProduceRequest:
        value = random.Random(number).randbytes(RECORD_BYTES)
        row = PartitionProduceData(index=0, records=build_batch([Record(0, 0, b"%d" % number, value, ())]))
        topics = [TopicProduceData(name="t", partition_data=[row])]
        return ProduceRequest(acks=-1, timeout_ms=self.timeout_ms, topic_data=topics)

    def _taken(self, answer: Any) -> bool:
        code = answer.responses[0].partition_responses[0].error_code
        if code != ErrorCode.NOT_ENOUGH_REPLICAS:
            self.appended_at_most += 1
        if code:
            assert code in RETRIABLE
            name = ErrorCode(code).name
            self.errors[name] = self.errors.get(name, 0) + 1
        else:
            self.done += 1
        return not code


async def flooded(
    trio: Trio, count: int, followers: Callable[[list[Any]], Awaitable[None]], **told: int
) -> tuple[Flood, int]:
    """Send so many records while the followers' machines are treated so; how far the leader ran ahead."""
    await trio.create(min_insync_replicas="2")
    await trio.world.sleep_ms(500)
    flood = Flood(trio, count, **told)
    machines = [trio.machine(node) for node in trio.followers()]
    leader = trio.held(trio.leader(PLACE))
    ahead = 0

    def look() -> None:
        nonlocal ahead
        ahead = max(ahead, leader.log.log_end_offset - leader.high_watermark)

    async def watch() -> None:
        while True:
            look()
            await trio.world.sleep_ms(20)

    watching = asyncio.ensure_future(watch())
    sending = flood.client.spawn(flood.run())
    await followers(machines)
    for machine in machines:
        machine.resume()
    await sending
    watching.cancel()
    await trio.whole()
    return flood, ahead


def tell(story: Callable[[Trio], Awaitable[None]], **settings: str) -> None:
    async def scenario(world: World) -> None:
        trio = Trio(world, 3, replica_lag_time_max_ms="3000", **settings)
        trio.ensemble.session_timeout_ms = 20_000
        await trio.start()
        await story(trio)

    simulate(scenario, 1)


@pytest.mark.parametrize("durability", ["os", "group"])
def test_followers_that_stand_still_have_nothing_appended_twice(durability: str) -> None:
    """For longer than they may lag, and shorter than their sessions last."""

    async def story(trio: Trio) -> None:
        async def stand_still(machines: list[Any]) -> None:
            await trio.world.sleep_ms(50)
            for machine in machines:
                machine.pause()
            await trio.world.sleep_ms(6000)

        flood, ahead = await flooded(trio, 100, stand_still)
        assert flood.done == 100
        assert set(flood.errors) <= {"NOT_ENOUGH_REPLICAS"}, flood.errors
        assert trio.ends() == [(100, 100)] * 3
        assert ahead * RECORD_BYTES <= 2 * SHARE_BYTES

    tell(story, moldau_durability=durability)


def test_slow_followers_have_nothing_appended_twice_and_stay_in_sync() -> None:
    async def story(trio: Trio) -> None:
        async def slow(machines: list[Any]) -> None:
            for _ in range(20):
                for machine in machines:
                    machine.pause()
                await trio.world.sleep_ms(900)
                for machine in machines:
                    machine.resume()
                await trio.world.sleep_ms(100)
                assert len(trio.in_sync(PLACE)) == 3

        flood, ahead = await flooded(trio, 200, slow)
        assert (flood.done, flood.errors) == (200, {})
        assert trio.ends() == [(200, 200)] * 3
        assert ahead < 100, "what is replicated in a second, and not all"

    tell(story)


def test_what_times_out_is_appended_once_for_each_time_it_was_sent() -> None:
    async def story(trio: Trio) -> None:
        async def stand_still(machines: list[Any]) -> None:
            await trio.world.sleep_ms(50)
            for machine in machines:
                machine.pause()
            await trio.world.sleep_ms(6000)

        flood, _ = await flooded(trio, 60, stand_still, timeout_ms=1000)
        assert flood.done == 60
        assert flood.errors["REQUEST_TIMED_OUT"] > 0
        end = flood.appended_at_most
        assert trio.ends() == [(end, end)] * 3
        assert end <= 60 + 5 * (SHARE_BYTES // RECORD_BYTES + 2), "a share for each timeout, and not all"

    tell(story)
