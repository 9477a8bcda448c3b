"""What is pulled over a link, with partitions and a source that are told what to say."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.metadata.mirrors import MirrorLink, MirrorState, MirrorTopic
from moldau.broker.mirror.fetching import SourceFetch
from moldau.broker.mirror.machine import State
from moldau.broker.mirror.outputs import BeginAt, Truncate
from moldau.broker.mirror.pulled import Pulled
from moldau.broker.mirror.puller import LinkPuller
from moldau.broker.mirror.source import SourcePartition
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

LINK = MirrorLink("link", {"bootstrap.servers": "localhost:1", "topics": ".*"})
LEADER = 7


class Log:
    """Notes what is appended and cut."""

    def __init__(self, end_offset: int) -> None:
        self.log_start_offset, self.log_end_offset = 0, end_offset
        self.latest_leader_epoch = 0
        self.is_cutting = False
        self.cuts: list[int] = []
        self.appended: list[bytes] = []
        self.transactions = SimpleNamespace(settle=lambda high_watermark: None)

    def begin_truncation(self, offset: int) -> None:
        self.cuts.append(offset)
        raise OSError  # nothing more is of interest here

    begin_anew = begin_truncation

    def append_as_follower(self, batches: memoryview, *more: int) -> Any:
        self.appended.append(bytes(batches))
        return SimpleNamespace(size_bytes=len(batches), error_code=0, error_message=None)


class World:
    """A link's puller, of topics whose partition 0 is led here and at the source's broker 7."""

    def __init__(self) -> None:
        self.decided: list[Any] = []
        self.clock = SimpleNamespace(monotonic_ms=lambda: 0.0, now_ms=lambda: 0)
        host = SimpleNamespace(loop=asyncio.get_running_loop(), timers=SimpleNamespace(), clock=self.clock)
        self.parts: Any = SimpleNamespace(
            node_id=1,
            host=host,
            clock=self.clock,
            lane=SlowLane(),
            image=lambda: EMPTY_IMAGE,
            frame_bytes_max=1 << 20,
            fetch_wait_ms=lambda: 500,
            fetch_bytes_max=lambda: 1 << 20,
            partition_bytes_max=lambda: 1 << 20,
        )
        self.puller = LinkPuller(self.parts, LINK)
        self.puller._begin = lambda: None  # type: ignore[method-assign]  # no task: the test says what happens
        self.fetch = SourceFetch(LEADER, self.parts, self.puller._source, self.puller)

    def pulled(self, topic: str, source: str, end_offset: int) -> Pulled:
        """A partition that is fetched."""
        partition: Any = SimpleNamespace(
            topic=topic,
            index=0,
            leads=True,
            is_mirror=True,
            leader_epoch=3,
            high_watermark=end_offset,
            log=Log(end_offset),
            disk_failed=lambda error: None,
            changed=lambda: None,
            written_soon=lambda size_bytes: None,
        )
        self.puller.pull(partition, MirrorTopic("link", source, b"i" * 16, left=(0,)))
        pulled = self.puller._pulled[topic, 0]
        pulled.machine.leader, pulled.machine.state = LEADER, State.FETCHING
        return pulled


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def asked(due: list[Pulled]) -> list[tuple[Pulled, SourcePartition]]:
    return [(each, each.leader) for each in due]


def answer(source: str, *records: bytes) -> FetchResponse:
    rows = [PartitionData(partition_index=0, high_watermark=100, records=each) for each in records]
    return FetchResponse(responses=[FetchableTopicResponse(topic=source, partitions=rows)])


def test_an_answer_that_comes_after_the_failover_changes_nothing() -> None:
    """The partition is read-only while transactions are aborted; what came now might open another one."""

    async def scenario() -> None:
        world = World()
        pulled = world.pulled("t", "t", 5)
        due = world.fetch._due()
        assert due == [pulled]
        pulled.machine.asked(5, 0.0)
        world.puller.stop("t", 0)
        await world.fetch._take(asked(due), answer("t", b"late"))
        world.puller.carry_out(pulled, [Truncate(3), BeginAt(50)])
        assert (pulled.partition.log.appended, pulled.partition.log.cuts) == ([], [])
        pulled.partition.log.log_end_offset = 5
        world.pulled("t", "t", 5).machine.asked(5, 0.0)
        again = world.fetch._due()
        await world.fetch._take(asked(again), answer("t", b"in time"))
        assert again[0].partition.log.appended == [b"in time"]

    run(scenario())


def test_two_topics_that_mirror_the_same_one_are_not_asked_for_together() -> None:
    """With one answer for both, what the further one asked for was appended to the other, with a gap."""

    async def scenario() -> None:
        world = World()
        old, new = world.pulled("old.t", "t", 1000), world.pulled("new.t", "t", 0)
        rounds = [world.fetch._due() for _ in range(4)]
        assert rounds == [[old], [new], [old], [new]]

    run(scenario())


def test_each_request_begins_with_another_partition() -> None:
    """An answer has a limit; ten busy partitions would use up all of it for ever."""

    async def scenario() -> None:
        world = World()
        every = [world.pulled(name, name, 0) for name in "abc"]
        firsts = [world.fetch._due()[0] for _ in range(3)]
        assert firsts == every

    run(scenario())


def test_a_pause_that_was_over_before_this_broker_saw_it_ends() -> None:
    """The topic waits to hear from each partition where it begins; this one had told that long ago."""

    async def scenario() -> None:
        world = World()
        pulled = world.pulled("t", "t", 5)
        pulled.machine._told_start = True
        prepared = MirrorTopic("link", "t", b"i" * 16, MirrorState.PREPARING, left=(0,))
        world.puller.pull(pulled.partition, prepared)
        assert world.puller._started == {"t": {0}}
        pulled.machine.fault("gone")
        world.puller.pull(pulled.partition, prepared)
        assert pulled.stopped
        assert world.puller._pulled["t", 0].machine.state is State.LOOKING

    run(scenario())


def test_a_fault_that_cannot_be_written_is_told_again() -> None:
    """Nobody else would: the topic would stay "mirroring", and nothing of it be pulled."""

    async def scenario() -> None:
        world = World()
        answers: list[bool | None] = [None, None, True]
        asked = []

        class Controller:
            async def decide(self, decide: Any, failed: Any) -> bool | None:
                asked.append(decide)
                return answers.pop(0)

        async def pause(pause_ms: float) -> None:
            return None

        world.parts.controller, world.parts.pause = Controller(), pause
        pulled = world.pulled("t", "t", 5)
        world.puller.carry_out(pulled, pulled.machine.fault("gone"))
        await asyncio.gather(*world.puller._tasks)
        assert (len(asked), answers) == (3, [])

    run(scenario())


def test_a_source_that_does_not_wait_is_not_asked_as_fast_as_it_answers() -> None:
    async def scenario() -> None:
        world = World()
        pulled = world.pulled("t", "t", 5)
        pauses: list[float] = []
        asked = 0

        async def send(*request: Any, **more: Any) -> FetchResponse:
            nonlocal asked
            asked += 1
            return answer("t", b"" if asked < 4 else b"news")

        async def pause(pause_ms: float) -> None:
            pauses.append(pause_ms)

        world.puller._source.send = send  # type: ignore[method-assign]
        world.parts.pause = pause
        real_append = world.puller.append

        def append(each: Pulled, records: memoryview, source_start: int) -> memoryview | None:
            if len(records):
                world.fetch.close()
            return real_append(each, records, source_start)

        world.puller.append = append  # type: ignore[method-assign]
        await world.fetch.run()
        assert (asked, pauses) == (4, [20.0] * 3)
        assert pulled.partition.log.appended[-1] == b"news"

    run(scenario())


@pytest.mark.parametrize("state", [State.COMPARING, State.CUTTING, State.FETCHING])
def test_what_a_leader_says_that_was_deposed_meanwhile_is_dropped(state: State) -> None:
    """Ends were compared with the new leader's already: a record that it does not have would stay."""

    async def scenario() -> None:
        world = World()
        pulled = world.pulled("t", "t", 5)
        due = asked(world.fetch._due())
        pulled.machine.asked(5, 0.0)
        if state is State.FETCHING:
            pulled.machine.source_epoch = 9
        pulled.machine.state = state
        await world.fetch._take(due, answer("t", b"late"))
        assert world.puller.append(pulled, memoryview(b""), -1) is None
        assert pulled.partition.log.appended == ([b""] if state is State.FETCHING else [])

    run(scenario())
