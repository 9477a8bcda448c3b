"""A share-partition with its log and the share coordinator: starting, writing, being fenced, and sessions
that end."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from moldau.broker.coordinator.share.shard import Outcome
from moldau.broker.coordinator.share.state import Key, ShareState, StateBatch
from moldau.broker.handlers.parts.session import Session
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType, TopicState
from moldau.broker.replication.reading import Read
from moldau.broker.share.partitions import SharePartitions
from moldau.broker.share.served import ServedPartition
from moldau.broker.share.sessions import MemberKey, ShareSession
from moldau.broker.share.share_partition import Ack, Wanted
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.common.settings.broker import BrokerSettings

TOPIC_ID = b"t" * 16
KEY = Key("g", TOPIC_ID, 0)
ANY = Wanted(500, 500, strict=False)


class FakeStates:
    """A share coordinator that answers when it is told to."""

    def __init__(self) -> None:
        self.state: ShareState | None = ShareState(0, 1, 0, -1, -1, 0)
        self.read_error = 0
        self.write_codes: list[int] = []
        self.writes: list[Any] = []
        self.blocked: asyncio.Event | None = None

    async def until_done(self, call: Any, attempts_max: int | None = None) -> Outcome:
        done = call.here(self)
        if isinstance(done, str):
            return Outcome(self.read_error, self.state)
        if self.blocked is not None:
            await self.blocked.wait()
        self.writes.append(done)
        return Outcome(self.write_codes.pop(0) if self.write_codes else 0)

    # What calls ask of a coordinator

    def read(self, key: Key, leader_epoch: int) -> str:
        return "read"

    def write(self, key: Key, change: Any) -> Any:
        return change


class FakePartition:
    """A partition with some batches of ten records."""

    def __init__(self, batches: int = 3, start: int = 0) -> None:
        self.topic, self.index, self.leads, self.leader_epoch = "t", 0, True, 4
        records = [Record(offset, 1, None, b"v", ()) for offset in range(10)]
        ten = bytes(build_batch(records))[8:]
        self.batches = {n * 10: (n * 10).to_bytes(8, "big") + ten for n in range(batches)}
        self.high_watermark = self.last_stable_offset = batches * 10
        self.log = SimpleNamespace(log_start_offset=start, log_end_offset=batches * 10)

    def read(self, offset: int, bytes_max: int, committed: bool, first: bool, leader_epoch: int) -> Read:
        assert leader_epoch == self.leader_epoch
        data = b"".join(each for base, each in self.batches.items() if base + 9 >= offset)
        return Read(0, 0, self.high_watermark, self.high_watermark, 0, () if committed else None, data)


class World:
    """Share-partitions of one broker."""

    def __init__(self, reset: str = "earliest") -> None:
        self.states, self.partition = FakeStates(), FakePartition()
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.reset = reset
        self.searched: list[int] = []
        self.somebody = Session("PLAINTEXT")
        topic = TopicState("t", TOPIC_ID, (PartitionState(1, 4, 0, (1,), (1,)),))
        self.image = EMPTY_IMAGE._replace(
            topics={"t": topic},
            topic_names={TOPIC_ID: "t"},
            configs={(ResourceType.GROUP, "g"): {"share.auto.offset.reset": reset}},
        )
        self.share = SharePartitions(
            node_id=1,
            image=lambda: self.image,
            settings=BrokerSettings,
            clock=self.clock,
            timers=self.timers,
            states=self.states,  # type: ignore[arg-type]
            search=self._search,
        )

    async def _search(self, partition: Any, timestamp_ms: int) -> int | None:
        self.searched.append(self.clock.now_ms() - timestamp_ms)
        return 7

    def session(self, member: str, connection: Session | None = None) -> ShareSession:
        session = self.share.sessions.open(MemberKey("g", member), connection or Session("PLAINTEXT"))
        assert isinstance(session, ShareSession)
        return session

    async def served(self) -> ServedPartition:
        served = self.share.get(KEY, self.partition)  # type: ignore[arg-type]
        await settle()
        return served


class Waiter:
    """A parked request."""

    def __init__(self, woken: list[int]) -> None:
        self.woken = woken

    def more(self, bytes_added: int, stable_bytes: int) -> None:
        self.woken.append(bytes_added)


async def settle() -> None:
    """Let all tasks run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(story: Callable[[World], Awaitable[None]], **fields: Any) -> None:
    async def whole() -> None:
        world = World(**fields)
        try:
            world.session("somebody", world.somebody)
            await story(world)
        finally:
            world.share.close()
            await settle()

    asyncio.run(whole())


def test_the_start_is_chosen_and_written_before_anything_is_given_out() -> None:
    async def story(world: World) -> None:
        served = await world.served()
        assert [(each.start_offset, each.batches) for each in world.states.writes] == [(0, ())]
        assert served.take("m", ANY, 1 << 20, first=True).acquired == [(0, 29, 1)]

    run(story)


def test_where_a_group_begins() -> None:
    async def latest(world: World) -> None:
        await world.served()
        assert world.states.writes[0].start_offset == 30

    async def by_duration(world: World) -> None:
        await world.served()
        assert (world.states.writes[0].start_offset, world.searched) == (7, [3_600_000])

    async def read_back(world: World) -> None:
        world.states.state = ShareState(3, 1, 0, 5, 2, 0, (StateBatch(6, 7, 2, 1), StateBatch(9, 9, 0, 2)))
        served = await world.served()
        assert not world.states.writes
        assert served.take("m", ANY, 1 << 20, first=True).acquired == [
            (5, 5, 1),
            (8, 8, 1),
            (9, 9, 3),
            (10, 29, 1),
        ]

    run(latest, reset="latest")
    run(by_duration, reset="by_duration:PT1H")
    run(read_back)


def test_a_log_that_ends_before_the_start_begins_at_its_end() -> None:
    async def story(world: World) -> None:
        world.states.state = ShareState(3, 1, 0, 500, 0, 0, (StateBatch(500, 510, 0, 1),))
        served = await world.served()
        assert served.machine is not None
        assert served.machine.start_offset == 30
        assert world.states.writes[0].start_offset == 30

    run(story)


def test_nobody_is_told_before_it_is_written_and_later_changes_share_the_next_write() -> None:
    async def story(world: World) -> None:
        served = await world.served()
        world.states.writes.clear()
        served.take("m", ANY, 1 << 20, first=True)
        world.states.blocked = asyncio.Event()
        one = served.acknowledge("m", [Ack(5, 9, [1])], renews=False)
        waits = asyncio.ensure_future(served.written(one.version))
        await settle()
        two = served.acknowledge("m", [Ack(10, 14, [1])], renews=False)
        three = served.acknowledge("m", [Ack(15, 19, [2])], renews=False)
        await settle()
        assert not waits.done()
        world.states.blocked.set()
        assert await waits == 0
        assert await served.written(two.version) == await served.written(three.version) == 0
        assert [each.batches for each in world.states.writes] == [
            ((5, 9, 2, 1),),
            ((10, 14, 2, 1), (15, 19, 0, 1)),
        ]

    run(story)


def test_a_leader_that_is_fenced_serves_no_longer() -> None:
    async def story(world: World) -> None:
        served = await world.served()
        served.take("m", ANY, 1 << 20, first=True)
        world.states.write_codes = [ErrorCode.FENCED_LEADER_EPOCH]
        done = served.acknowledge("m", [Ack(0, 9, [1])], renews=False)
        assert await served.written(done.version) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert served.is_closed
        again = await world.served()
        assert again is not served
        assert again.take("m", ANY, 1 << 20, first=True).acquired

    run(story)


def test_without_state_there_is_nothing_and_a_later_request_looks_again() -> None:
    async def story(world: World) -> None:
        kept, world.states.state = world.states.state, None
        served = await world.served()
        assert served.is_closed
        assert served.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        world.states.state = kept
        assert (await world.served()).machine is not None

    run(story)


def test_locks_end_by_the_timer_and_those_who_wait_are_woken() -> None:
    async def story(world: World) -> None:
        served = await world.served()
        served.take("m", ANY, 1 << 20, first=True)
        woken: list[int] = []
        served.park(Waiter(woken))
        world.timers.advance(29_999)
        await settle()
        assert not woken
        world.timers.advance(1)
        await settle()
        assert woken
        assert served.take("n", ANY, 1 << 20, first=True).acquired == [(0, 29, 2)]

    run(story)


def test_a_connection_that_ends_gives_back_what_its_member_held() -> None:
    async def story(world: World) -> None:
        lost, other = Session("PLAINTEXT"), Session("PLAINTEXT")
        world.session("m", lost)
        world.session("n", other)
        served = await world.served()
        served.take("m", ANY, 1 << 20, first=True)
        lost.closed()
        await settle()
        assert served.take("n", ANY, 1 << 20, first=True).acquired == [(0, 29, 2)]
        assert not served.is_closed
        other.closed()
        world.somebody.closed()
        await settle()
        assert served.is_closed
        assert not world.share.all()

    run(story)


def test_another_leader_or_no_topic_ends_it() -> None:
    async def story(world: World) -> None:
        served = await world.served()
        done = served.acknowledge("m", [], renews=False)
        assert done.error_code == 0
        topic = world.image.topics["t"]
        moved = topic._replace(partitions=(PartitionState(2, 5, 0, (1, 2), (1, 2)),))
        world.share.image_changed(world.image._replace(topics={"t": moved}))
        assert served.is_closed
        served = await world.served()
        world.share.image_changed(EMPTY_IMAGE)
        assert served.is_closed
        world.partition.leads = False
        assert world.share.known(KEY) is None

    run(story)


def test_records_that_are_deleted_are_skipped() -> None:
    async def story(world: World) -> None:
        served = await world.served()
        served.take("m", ANY, 1 << 20, first=True)
        world.partition.log.log_start_offset = 12
        done = served.acknowledge("m", [Ack(0, 29, [1])], renews=False)
        assert done.error_code == 0
        assert served.machine is not None
        assert served.machine.start_offset == 30

    run(story)


def test_what_the_state_says_of_offsets_that_the_log_lost_is_not_said_of_new_records() -> None:
    async def story(world: World) -> None:
        world.states.state = ShareState(
            3, 1, 0, 5, 0, 0, (StateBatch(25, 34, 2, 1), StateBatch(40, 49, 4, 1))
        )
        served = await world.served()
        assert world.states.writes[0].batches == ((30, 34, 0, 0), (40, 49, 0, 0))
        assert served.take("m", ANY, 1 << 20, first=True).acquired == [(5, 24, 1)]
        more = FakePartition(5)
        world.partition.batches, world.partition.high_watermark = more.batches, 50
        assert served.take("m", ANY, 1 << 20, first=True).acquired == [(30, 49, 1)]

    async def all_lost(world: World) -> None:
        world.states.state = ShareState(3, 1, 0, 500, 0, 0, (StateBatch(501, 510, 2, 1),))
        await world.served()
        assert (world.states.writes[0].start_offset, world.states.writes[0].batches) == (
            30,
            ((501, 510, 0, 0),),
        )

    run(story)
    run(all_lost)


def test_a_session_that_ends_looks_only_where_its_member_acquired_something() -> None:
    async def story(world: World) -> None:
        lost = Session("PLAINTEXT")
        world.session("m", lost)
        idle = await world.served()
        idle.release = None  # type: ignore[method-assign, assignment]
        lost.closed()
        assert world.share.sessions.has_group("g")

    run(story)
