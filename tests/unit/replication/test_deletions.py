"""DeleteRecords over replicas: when it is answered, and with what (KIP-107)."""

import asyncio
from collections.abc import Callable
from typing import cast

from moldau.broker.metadata.image import PartitionState
from moldau.broker.replication.deletions import Deleted, Deletions
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.role import Role
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode


class Led:
    """A partition whose followers' log start offsets the test sets."""

    def __init__(self, **followers: int) -> None:
        self.followers = {int(name[1:]): offset for name, offset in followers.items()}
        self.log_start_offset = 0
        self.leads = True
        self.deletion_waits = False

    def delete_records(self, offset: int) -> tuple[int, int]:
        if self.refusal():
            return self.refusal(), -1
        if offset > 100:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        self.log_start_offset = max(self.log_start_offset, 100 if offset < 0 else offset)
        return 0, self.log_start_offset

    def low_watermark(self, is_live: Callable[[int], bool]) -> int:
        return min([self.log_start_offset, *(each for node, each in self.followers.items() if is_live(node))])

    def refusal(self) -> int:
        return 0 if self.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER


class World:
    def __init__(self, partition: Led) -> None:
        self.led = partition
        self.partition = cast("Partition", partition)
        self.timers = ManualTimers(ManualClock())
        self.live = {1, 2, 3}
        self.deletions = Deletions(self.timers, lambda node: node in self.live)

    def delete(self, offset: int, timeout_ms: int = 1_000) -> "Deleted | asyncio.Future[Deleted]":
        return self.deletions.delete(self.partition, offset, timeout_ms)

    def waiting(self, offset: int, timeout_ms: int = 1_000) -> "asyncio.Future[Deleted]":
        answer = self.delete(offset, timeout_ms)
        assert isinstance(answer, asyncio.Future)
        assert self.led.deletion_waits
        return answer

    def followed(self, node: int, offset: int) -> None:
        self.led.followers[node] = offset
        self.deletions.look(self.partition)


def in_a_loop(scene: Callable[[World], None], **followers: int) -> None:
    async def main() -> None:
        scene(World(Led(**followers)))

    asyncio.run(main())


def test_alone_it_is_answered_at_once():
    world = World(Led())
    assert world.delete(7) == Deleted(0, 7)
    assert world.delete(-1) == Deleted(0, 100)
    assert world.delete(101) == Deleted(ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert not world.led.deletion_waits


def test_it_waits_for_every_live_replica():
    def scene(world: World) -> None:
        answer = world.waiting(10)
        world.followed(2, 10)
        assert not answer.done()
        world.followed(3, 12)
        assert answer.result() == Deleted(0, 10)
        assert not world.led.deletion_waits
        assert world.delete(5) == Deleted(0, 10), "records before 10 are gone everywhere"
        world.timers.advance(5_000)

    in_a_loop(scene, n2=0, n3=-1)


def test_it_does_not_wait_for_a_dead_replica():
    def scene(world: World) -> None:
        answer = world.waiting(10)
        world.live = {1, 2}
        world.deletions.brokers_changed()
        assert not answer.done()
        world.followed(2, 10)
        assert answer.result() == Deleted(0, 10)

    in_a_loop(scene, n2=0, n3=0)


def test_the_death_of_the_last_one_that_is_waited_for_ends_it():
    def scene(world: World) -> None:
        answer = world.waiting(10)
        world.live = {1}
        world.deletions.brokers_changed()
        assert answer.result() == Deleted(0, 10)

    in_a_loop(scene, n2=0)


def test_the_timeout_tells_how_far_it_is():
    def scene(world: World) -> None:
        first, second = world.waiting(10, 1_000), world.waiting(20, 3_000)
        world.followed(2, 4)
        world.timers.advance(1_500)
        assert first.result() == Deleted(ErrorCode.REQUEST_TIMED_OUT, 4)
        assert world.led.deletion_waits
        world.followed(2, 20)
        assert second.result() == Deleted(0, 20)

    in_a_loop(scene, n2=0)


def test_another_leader_ends_it():
    def scene(world: World) -> None:
        answer = world.waiting(10)
        world.led.leads = False
        world.deletions.look(world.partition)
        assert answer.result() == Deleted(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)

    in_a_loop(scene, n2=0)


def test_a_client_that_went_away_is_forgotten():
    def scene(world: World) -> None:
        answer = world.waiting(10)
        answer.cancel()
        world.followed(2, 10)
        world.timers.advance(5_000)
        assert not world.led.deletion_waits

    in_a_loop(scene, n2=0)


def test_the_low_watermark_is_the_smallest_log_start_over_the_replicas_on_live_brokers() -> None:
    role = Role(1, high_watermark=9, written_end_offset=9, flushed_end_offset=9)
    role.become(PartitionState(1, 0, 0, (1, 2, 3), (1, 2, 3)), 9, 0.0)
    live = {1, 2, 3}

    def low_watermark() -> int:
        return role.followers.low_watermark(5, lambda node: node in live)

    assert low_watermark() == -1, "no follower has told its own"
    role.follower_fetched(2, 9, 7, True, 1.0, 8)
    assert low_watermark() == -1
    role.follower_fetched(3, 9, 8, True, 1.0, 2)
    assert low_watermark() == 2
    live.remove(3)
    assert low_watermark() == 5, "nobody waits for a broker that is gone"
    live.remove(2)
    assert low_watermark() == 5
    live.add(3)
    role.follower_fetched(3, 9, 8, True, 1.0, 5)
    assert low_watermark() == 5
