"""The share coordinator over a log: what it answers, a broker that comes after, and pruning."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from consumer_world import image_of
from pending_append import PendingAppend

from moldau.broker.coordinator.machine import Loaded
from moldau.broker.coordinator.share import service as service_module
from moldau.broker.coordinator.share.service import ShareCoordinator, key_text
from moldau.broker.coordinator.share.shard import Outcome, Write
from moldau.broker.coordinator.share.state import Key, StateBatch
from moldau.broker.metadata.changes import TopicDeleted
from moldau.broker.metadata.image import SHARE_STATE_TOPIC
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.core.waiting import settled
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings


class PrunedLog:
    """One partition of `__share_group_state`, in memory; `start` is its log start offset."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.start = 0
        self.sizes: list[int] = []
        self.most_bytes = 0
        self.held: list[PendingAppend] | None = None

    def append_records(
        self, topic: str, index: int, leader_epoch: int, records: Sequence[Any], producer: Any = None
    ) -> PendingAppend:
        self.sizes.append(len(records))
        self.most_bytes = max(self.most_bytes, sum(len(key) + len(value or b"") for key, value in records))
        pending = PendingAppend(lambda: self.records.extend(records))
        if self.held is None:
            pending.finish()
        else:
            self.held.append(pending)
        return pending

    def append_marker(self, *_: object) -> PendingAppend:
        raise AssertionError

    def committed_records(self, topic: str, index: int, leader_epoch: int) -> Iterator[Loaded]:
        return iter(self.records[self.start :])

    def all_committed(self, *_: object) -> PendingAppend:
        raise AssertionError

    def extent(self, topic: str, index: int, leader_epoch: int) -> tuple[int, int] | None:
        return self.start, len(self.records)

    def delete_before(self, topic: str, index: int, leader_epoch: int, offset: int) -> None:
        self.start = offset


class World:
    """A coordinator with one shard."""

    def __init__(self) -> None:
        self.log, self.clock = PrunedLog(), ManualClock()
        self.timers = ManualTimers(self.clock)
        self.image = image_of({SHARE_STATE_TOPIC: 1})
        self.coordinator = self._new(0)

    def _new(self, leader_epoch: int) -> ShareCoordinator:
        coordinator = ShareCoordinator(
            log=self.log,
            image=lambda: self.image,
            settings=BrokerSettings,
            clock=self.clock,
            timers=self.timers,
        )
        coordinator.elected(0, leader_epoch)
        self.timers.advance(10)
        return coordinator

    def restart(self) -> None:
        """Another broker reads the log."""
        self.coordinator.stop()
        self.coordinator = self._new(1)

    async def write(self, key: Key, *batches: StateBatch, start: int = -1) -> int:
        outcome: Outcome = await settled(self.coordinator.write(key, Write(1, 0, start, 0, batches)))
        return outcome.error_code

    def states(self) -> dict[Key, Any]:
        state = self.coordinator.runtime.state(0)
        assert state is not None
        return {
            key: (each.state_epoch, each.start_offset, each.batches) for key, each in state.states.items()
        }


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story(World())

    asyncio.run(whole())


def key(number: int) -> Key:
    return Key(f"group-{number}", b"t" * 16, number % 3)


def test_a_log_that_has_grown_is_pruned_and_nothing_is_lost() -> None:
    async def story(world: World) -> None:
        seeded = random.Random(1)
        for number in range(120):
            await settled(world.coordinator.initialize(key(number), 1, 0))
        for number in (5, 6):
            await settled(world.coordinator.delete(key(number)))
        while len(world.log.records) < service_module.GROWTH_MIN - 1:
            number = seeded.randrange(10, 120)
            first = seeded.randrange(100)
            batch = StateBatch(first, first + seeded.randrange(9), seeded.choice((0, 2, 4)), 1)
            assert await world.write(key(number), batch) == 0
        world.coordinator.prune(0)
        assert world.log.start == 0
        assert await world.write(key(11), StateBatch(1, 1, 2, 1)) == 0
        before, grown = world.states(), len(world.log.records)
        world.coordinator.prune(0)
        world.timers.advance(100)
        assert world.log.start == grown
        assert world.states() == before
        assert await world.write(key(11), StateBatch(500, 501, 2, 1), start=3) == 0
        before = world.states()
        world.restart()
        assert world.states() == before
        assert key(5) not in before

    run(story)


def test_what_is_written_while_pruning_stays() -> None:
    async def story(world: World) -> None:
        for number in range(130):
            await settled(world.coordinator.initialize(key(number), 1, 0))
        for offset in range(1000):
            await world.write(key(0), StateBatch(offset * 2, offset * 2, 2, 1))
        world.log.held = []
        world.coordinator.prune(0)
        world.timers.advance(1)
        late = asyncio.ensure_future(world.write(key(129), StateBatch(7, 8, 2, 1)))
        begun = asyncio.ensure_future(
            settled(world.coordinator.initialize(Key("new", b"t" * 16, 0), 1, 5))  # type: ignore[arg-type]
        )
        for _ in range(50):
            while world.log.held:
                world.log.held.pop(0).finish()
            world.timers.advance(1)
            await asyncio.sleep(0)
        assert await late == 0
        assert (await begun).error_code == 0
        assert world.log.start > 0
        before = world.states()
        world.log.held = None
        world.restart()
        assert world.states() == before
        assert before[key(129)] == (1, 0, (StateBatch(7, 8, 2, 1),))
        assert Key("new", b"t" * 16, 0) in before

    run(story)


def test_a_shard_that_is_not_here_refuses() -> None:
    async def story(world: World) -> None:
        world.coordinator.resigned(0)
        outcome = await settled(world.coordinator.read(key(0), 1))
        assert outcome.error_code == ErrorCode.NOT_COORDINATOR
        assert world.coordinator.partition_for(key_text(key(0))) == 0

    run(story)


def test_many_states_of_a_deleted_topic_are_forgotten_in_pieces() -> None:
    async def story(world: World) -> None:
        old = image_of({SHARE_STATE_TOPIC: 1, "t": 1})
        topic_id = old.topics["t"].topic_id
        for number in range(2000):
            await settled(world.coordinator.initialize(Key(f"group-{number}", topic_id, 0), 1, 0))
        kept = Key("other", b"o" * 16, 0)
        await settled(world.coordinator.initialize(kept, 1, 0))
        world.log.sizes.clear()
        world.log.most_bytes = 0
        world.coordinator.metadata_changed(old, world.image, [TopicDeleted("t")])
        world.timers.advance(10)
        assert list(world.states()) == [kept]
        assert sum(world.log.sizes) == 2000
        assert world.log.most_bytes <= 64 * 1024

    run(story)


def test_large_states_are_pruned_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "GROWTH_MIN", 100)

    async def story(world: World) -> None:
        for number in range(30):
            await settled(world.coordinator.initialize(key(number), 1, 0))
            batches = [StateBatch(2 * n, 2 * n, 2, 1) for n in range(1000)]
            assert await world.write(key(number), *batches) == 0
        for _ in range(100):
            await world.write(key(0), StateBatch(1, 1, 0, 1))
        before = world.states()
        world.log.most_bytes = 0
        world.coordinator.prune(0)
        world.timers.advance(100)
        assert world.log.start > 0
        assert world.log.most_bytes < 200_000
        world.restart()
        assert world.states() == before

    run(story)
