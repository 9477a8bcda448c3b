"""A whole node and its metadata: how its last stop is told, and a part that fails to follow a change."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from moldau.broker.metadata.store import NO_BROKER_EPOCH
from moldau.broker.node import Node
from moldau.broker.stages.coordination import Coordination
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.sources import from_texts


def node_on(*folders: Path) -> Node:
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": ",".join(map(str, folders)),
        "moldau.http.listener": "",
    }
    return Node(from_texts(texts))


def in_lives(*lives: Callable[[Node], Awaitable[None]], folders: list[Path], clean: bool = True) -> None:
    async def main() -> None:
        for life in lives:
            node = node_on(*folders)
            await node.start()
            try:
                await life(node)
            finally:
                await node.stop(clean=clean)

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_tells_under_which_epoch_it_stopped_cleanly(tmp_path: Path, clean: bool) -> None:
    told: list[tuple[int, int]] = []

    async def life(node: Node) -> None:
        registration = node.controller._store._live[node.node_id]  # type: ignore[attr-defined]
        told.append((registration.previous_broker_epoch, registration.broker_epoch))
        await node.controller.auto_create_topics(["a"])

    in_lives(life, life, life, folders=[tmp_path / "one", tmp_path / "two"], clean=clean)
    epochs = [epoch for _, epoch in told]
    assert epochs == sorted(set(epochs))
    before = epochs[:2] if clean else [NO_BROKER_EPOCH] * 2
    assert [previous for previous, _ in told] == [NO_BROKER_EPOCH, *before]


def test_one_directory_that_was_not_stopped_cleanly_is_enough(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    told: list[list[int]] = []

    async def life(node: Node) -> None:
        told.append(node.logs.directories.complete_epochs)

    in_lives(life, folders=folders)
    (folders[1] / ".kafka_cleanshutdown").unlink()
    in_lives(life, folders=folders)
    (folders[0] / ".kafka_cleanshutdown").write_bytes(b"as Kafka left it long ago")
    in_lives(life, folders=folders)
    assert told == [[], [], []]


def test_a_change_that_the_partitions_could_not_follow_is_made_up_for(tmp_path: Path) -> None:
    async def life(node: Node) -> None:
        real, failures = node.replicas.apply, [RuntimeError("no")]

        def failing(*arguments: object) -> object:
            if failures:
                raise failures.pop()
            return real(*arguments)  # type: ignore[arg-type]

        node.replicas.apply = failing  # type: ignore[method-assign, assignment]
        (result,) = await node.controller.auto_create_topics(["a"])
        assert result.outcome.error_code is ErrorCode.NONE
        assert node.replicas.partition("a", 0) is None
        (behind,) = node.metadata.behind()
        assert "RuntimeError: no" in behind.error
        await node.controller.auto_create_topics(["b"])  # as after a second, were there no other change
        assert node.replicas.partition("a", 0) is not None
        assert node.replicas.partition("b", 0) is not None
        assert node.metadata.behind() == []

    in_lives(life, folders=[tmp_path / "data"])


def test_a_coordinator_that_fails_after_partitions_were_opened_in_slices_is_told_again(
    tmp_path: Path,
) -> None:
    async def life(node: Node) -> None:
        groups = node.reached(Coordination).groups.get()
        # Told when the topic's partitions are there, and again when all of the image is carried out.
        real, failures = groups.elected, [RuntimeError("no")] * 2

        def failing(index: int, leader_epoch: int) -> None:
            if failures and index == 0:
                raise failures.pop()
            real(index, leader_epoch)

        groups.elected = failing  # type: ignore[method-assign]
        node.broker.slow_lane._slice_seconds = 0.0
        (result,) = await node.controller.auto_create_topics(["__consumer_offsets"])
        assert result.outcome.error_code is ErrorCode.NONE
        (behind,) = node.metadata.behind()
        assert "RuntimeError: no" in behind.error
        assert len(groups.runtime.partitions()) == 49
        await node.controller.auto_create_topics(["b"])
        assert len(groups.runtime.partitions()) == 50
        assert node.metadata.behind() == []

    in_lives(life, folders=[tmp_path / "data"])
