"""Many partitions come and go in slices: one a turn of the loop here, where the lane's slices have no
length."""

import asyncio
import errno
import itertools
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.changes import ConfigsChanged, PartitionsAdded, TopicCreated, TopicDeleted, replay
from moldau.broker.metadata.image import EMPTY_IMAGE, PartitionState, ResourceType
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.manager import ReplicaManager
from moldau.broker.replication.partition import Partition
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import ManualTimers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

FIRST, SECOND = bytes(range(16)), bytes(range(16, 32))
COUNT = 20


def created(name: str, topic_id: bytes = FIRST, count: int = COUNT) -> TopicCreated:
    return TopicCreated(name, topic_id, (PartitionState.fresh((1,)),) * count)


class World:
    def __init__(self, folder: Path) -> None:
        settings = BrokerSettings(log_dirs=(str(folder),))
        clock = ManualClock()
        self.folder = folder
        self.timers = ManualTimers(clock)
        self.logs = LogManager(settings, clock=clock, timers=self.timers, source=random.Random(1))
        self.logs.startup.load("cluster", 1, lambda topic: TopicSettings())
        group_commit = GroupCommit(
            asyncio.get_running_loop(), ThreadPoolExecutor(1), lambda partition, error: None
        )
        self.replicas = ReplicaManager(1, settings, self.logs, clock, group_commit)
        self.replicas.serve(SlowLane(0.0))
        self.image = EMPTY_IMAGE

    def apply(self, *changes: object) -> "asyncio.Future[None] | None":
        old, self.image = self.image, replay(self.image, self.image.version + 1, changes)  # type: ignore[arg-type]
        return self.replicas.apply(old, self.image, changes)  # type: ignore[arg-type]

    def open(self, topic: str) -> int:
        return sum(self.replicas.partition(topic, index) is not None for index in range(COUNT))

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())


Scene = Callable[[World], Awaitable[None]]


def play(folder: Path, scene: Scene) -> None:
    async def main() -> None:
        await asyncio.wait_for(scene(World(folder)), 30)

    asyncio.run(main())


async def done(*pending: "asyncio.Future[None] | None") -> None:
    for each in pending:
        if each is not None:
            await each


def test_each_turn_of_the_loop_opens_one_partition_and_the_image_is_told_at_the_end(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        pending = world.apply(created("t"))
        assert pending is not None
        seen = [world.open("t")]
        while not pending.done():
            await asyncio.sleep(0)
            seen.append(world.open("t"))
        assert seen[-1] == COUNT
        assert max(after - before for before, after in itertools.pairwise(seen)) == 1
        assert world.replicas.partition("t", COUNT - 1) is not None

    play(tmp_path, scene)


def test_each_turn_of_the_loop_closes_one_partition_of_a_topic_that_nobody_finds_any_longer(
    tmp_path: Path,
) -> None:
    async def scene(world: World) -> None:
        await done(world.apply(created("t")))
        pending = world.apply(TopicDeleted("t"))
        assert pending is not None
        assert world.open("t") == 0
        assert not world.replicas.by_topic_id
        seen = [len(world.logs)]
        while not pending.done():
            await asyncio.sleep(0)
            seen.append(len(world.logs))
        assert seen[-1] == 0
        assert max(before - after for before, after in itertools.pairwise(seen)) == 1

    play(tmp_path, scene)


def test_a_topic_deleted_while_it_is_being_made_leaves_nothing(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        making = world.apply(created("t"))
        for _ in range(5):
            await asyncio.sleep(0)
        half_made = world.open("t")
        assert 0 < half_made < COUNT
        deleting = world.apply(TopicDeleted("t"))
        assert world.open("t") == 0
        await done(making, deleting)
        assert len(world.logs) == 0
        assert not [name for name in world.folders() if not name.endswith("-delete")]
        assert not world.replicas.stats
        assert not world.replicas.by_name_bytes

    play(tmp_path, scene)


@pytest.mark.parametrize("turns", [0, 3, 2 * COUNT])
def test_a_topic_made_again_under_its_name_has_none_of_the_old_logs(tmp_path: Path, turns: int) -> None:
    async def scene(world: World) -> None:
        pending = [world.apply(created("t"))]
        for _ in range(turns):
            await asyncio.sleep(0)
        pending.append(world.apply(TopicDeleted("t")))
        pending.append(world.apply(created("t", SECOND)))
        await done(*pending)
        assert world.open("t") == COUNT
        assert list(world.replicas.by_topic_id) == [SECOND]
        assert {log.topic_id for log in world.logs} == {SECOND}
        assert len(world.logs) == COUNT
        partition = world.replicas.partition("t", 0)
        assert partition is not None
        assert partition.writable

    play(tmp_path, scene)


def test_what_changes_while_a_topic_is_being_made_reaches_all_of_its_partitions(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        making = world.apply(created("t", count=COUNT - 1))
        for _ in range(5):
            await asyncio.sleep(0)
        changing = world.apply(
            ConfigsChanged(ResourceType.TOPIC, "t", {"max.message.bytes": "1000"}),
            PartitionsAdded("t", (PartitionState.fresh((1,)),)),
        )
        await done(making, changing)
        assert world.open("t") == COUNT
        assert {log.settings.max_message_bytes for log in world.logs} == {1000}

    play(tmp_path, scene)


def test_images_are_told_in_their_order(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        told: list[int] = []
        pending = [
            world.apply(created("a")),
            world.apply(created("b", SECOND)),
            world.apply(TopicDeleted("a")),
            world.apply(ConfigsChanged(ResourceType.BROKER, "", {"log.retention.ms": "1000"})),
        ]
        for number, each in enumerate(pending):
            assert each is not None
            each.add_done_callback(lambda _, number=number: told.append(number))
        await done(*pending)
        await asyncio.sleep(0)
        assert told == [0, 1, 2, 3]
        assert world.open("b") == COUNT
        assert len(world.logs) == COUNT

    play(tmp_path, scene)


def test_settings_that_concern_one_topic_leave_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: World) -> None:
        await done(world.apply(created("a")), world.apply(created("b", SECOND)))
        touched: list[str] = []
        bring = world.replicas._bring_partition

        def noted(topic, *rest):  # type: ignore[no-untyped-def]
            touched.append(topic.name)
            bring(topic, *rest)

        monkeypatch.setattr(world.replicas, "_bring_partition", noted)
        await done(world.apply(ConfigsChanged(ResourceType.TOPIC, "a", {"retention.ms": "1000"})))
        assert set(touched) == {"a"}
        await done(world.apply(ConfigsChanged(ResourceType.BROKER, "", {"log.retention.ms": "9"})))
        assert set(touched) == {"a", "b"}

    play(tmp_path, scene)


def test_a_disk_that_fills_in_the_middle_leaves_the_rest_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: World) -> None:
        (directory,) = world.logs.directories
        create = world.logs.create

        def until_full(topic: str, index: int, *rest: object, **named: object) -> object:
            if index >= 7:
                error = OSError(errno.ENOSPC, "no space left on device")
                directory.report(error)
                raise error
            return create(topic, index, *rest, **named)  # type: ignore[arg-type]

        with monkeypatch.context() as full:
            full.setattr(world.logs, "create", until_full)
            await done(world.apply(created("t")))
        assert world.open("t") == 7
        assert directory.check_room()
        world.replicas.open_missing(world.image)
        for _ in range(3 * COUNT):
            await asyncio.sleep(0)
        assert world.open("t") == COUNT

    play(tmp_path, scene)


def test_what_a_stop_has_interrupted_is_made_at_the_next_start(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        pending = world.apply(created("t"))
        assert pending is not None
        for _ in range(5):
            await asyncio.sleep(0)
        half_made = world.open("t")
        world.replicas.close()
        await pending  # nobody waits for ever
        assert world.open("t") == half_made
        (
            tmp_path / f"t-{COUNT - 1}"
        ).mkdir()  # a kill between two steps leaves a folder without anything in it
        world.logs.close(clean=False)
        again = World(tmp_path)
        again.replicas._work.lane = None
        again.image = world.image
        assert again.replicas.apply(EMPTY_IMAGE, world.image, ()) is None
        assert again.open("t") == COUNT
        assert {log.topic_id for log in again.logs} == {FIRST}

    play(tmp_path, scene)


def test_those_who_wait_in_a_partition_that_leaves_are_answered(tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        await done(world.apply(created("t")))
        answers: list[int] = []

        class Waits:
            def settle(self, error_code: int, partition: Partition) -> None:
                answers.append(error_code)

        partition = world.replicas.partition("t", COUNT - 1)
        assert partition is not None
        partition.wait_for(1, Waits())
        pending = world.apply(TopicDeleted("t"))
        assert not answers  # its turn comes
        await done(pending)
        assert answers == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    play(tmp_path, scene)


def test_a_bug_in_one_topic_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: World) -> None:
        bring = world.replicas._bring_partition

        def fails(topic, *rest):  # type: ignore[no-untyped-def]
            if topic.name == "bad":
                raise RuntimeError("a bug")
            bring(topic, *rest)

        monkeypatch.setattr(world.replicas, "_bring_partition", fails)
        await done(world.apply(created("bad")), world.apply(created("good", SECOND)))
        assert (world.open("bad"), world.open("good")) == (0, COUNT)

    play(tmp_path, scene)


def test_a_topic_that_met_a_bug_is_told_in_health_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: World) -> None:
        bring, bugs = world.replicas._bring_partition, [RuntimeError("a bug")]

        def fails_once(topic, partitions, index, *rest):  # type: ignore[no-untyped-def]
            if index == 3 and bugs:
                raise bugs.pop()
            bring(topic, partitions, index, *rest)

        monkeypatch.setattr(world.replicas, "_bring_partition", fails_once)
        await done(world.apply(created("t")))
        assert world.open("t") == 3
        assert world.replicas.unopened == {"t": "RuntimeError: a bug"}
        world.replicas.open_missing(world.image)
        await done(world.apply())
        assert world.open("t") == COUNT
        assert not world.replicas.unopened

    play(tmp_path, scene)


def test_a_bug_in_one_partition_that_leaves_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(world: World) -> None:
        await done(world.apply(created("gone")))
        delete, bugs = world.logs.delete_async, [RuntimeError("a bug")]

        def fails_once(topic: str, index: int) -> bool:
            if index == 3 and bugs:
                raise bugs.pop()
            return delete(topic, index)

        monkeypatch.setattr(world.logs, "delete_async", fails_once)
        await done(world.apply(TopicDeleted("gone"), created("next", SECOND)))
        assert not bugs
        assert [log.partition for log in world.logs if log.topic == "gone"] == [3]
        assert world.open("next") == COUNT

    play(tmp_path, scene)
