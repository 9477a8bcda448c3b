"""Which partitions a broker pulls, ends or leaves alone as the metadata changes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.metadata.mirrors import MirrorLink, MirrorState, MirrorTopic
from moldau.broker.mirror.mirroring import Mirroring

TOPICS = ("a", "b", "c")


class Puller:
    """Notes what it is told."""

    def __init__(self, link: MirrorLink) -> None:
        self.link = link
        self.levels: dict[Any, Any] = {}
        self.pulled: set[str] = set()
        self.told: list[str] = []

    def pull(self, partition: Any, mirror: MirrorTopic) -> None:
        self.pulled.add(partition.topic)
        self.told.append(partition.topic)

    def stop(self, topic: str, index: int) -> None:
        self.pulled.discard(topic)

    def last_levels(self) -> dict[Any, Any]:
        return {}

    def close(self) -> None:
        self.pulled.clear()


class World:
    """A broker that leads a partition of three topics, which one link mirrors."""

    def __init__(self) -> None:
        self.partitions: dict[str, Any] = {
            name: SimpleNamespace(topic=name, index=0, leads=True, is_mirror=True) for name in TOPICS
        }
        loop = asyncio.get_running_loop()
        parts: Any = SimpleNamespace(
            node_id=1,
            host=SimpleNamespace(loop=loop),
            replicas=SimpleNamespace(partition=lambda topic, index: self.partitions[topic]),
        )
        self.mirroring: Any = Mirroring(parts)
        self.mirroring._make = self._make
        self.ended: list[str] = []
        self.mirroring._end = lambda partition: self.ended.append(partition.topic)
        self.image = EMPTY_IMAGE._replace(
            version=1,
            controller_id=2,
            mirror_links={"link": MirrorLink("link", {})},
            topics={name: SimpleNamespace(partitions=[SimpleNamespace(leader=1)]) for name in TOPICS},
            mirrors={name: MirrorTopic("link", name, state=MirrorState.MIRRORING) for name in TOPICS},
        )
        self.mirroring.image_changed(self.image)

    def _make(self, link: MirrorLink) -> None:
        self.mirroring.pullers[link.name] = Puller(link)
        self.mirroring.groups[link.name] = SimpleNamespace(close=lambda: None)

    @property
    def puller(self) -> Puller:
        found: Puller = self.mirroring.pullers["link"]
        return found

    def set(self, topic: str, **changed: Any) -> Image:
        """The next image, in which this topic's mirror has changed."""
        mirrors = {**self.image.mirrors, topic: self.image.mirrors[topic]._replace(**changed)}
        self.image = self.image._replace(version=self.image.version + 1, mirrors=mirrors)
        return self.image


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_only_what_changed_is_looked_at() -> None:
    """A link with ten thousand topics changes the image for each of them."""

    async def scenario() -> None:
        world = World()
        assert world.puller.pulled == set(TOPICS)
        world.puller.told.clear()
        world.mirroring.image_changed(world.set("b", source_id=b"i" * 16))
        assert world.puller.told == ["b"]
        world.mirroring.image_changed(world.set("b", state=MirrorState.PAUSED))
        assert world.puller.pulled == {"a", "c"}
        topics = {name: each for name, each in world.image.topics.items() if name != "a"}
        mirrors = {name: each for name, each in world.image.mirrors.items() if name != "a"}
        world.image = world.image._replace(version=9, topics=topics, mirrors=mirrors)
        world.mirroring.image_changed(world.image)
        assert world.puller.pulled == {"c"}

    run(scenario())


def test_an_image_that_comes_late_does_not_pull_what_is_failed_over() -> None:
    async def scenario() -> None:
        world = World()
        older = world.set("a", source_id=b"i" * 16)
        world.mirroring.image_changed(world.set("a", state=MirrorState.FAILING_OVER, left=(0,)))
        world.mirroring.image_changed(older)
        assert (world.puller.pulled, world.ended) == ({"b", "c"}, ["a"])

    run(scenario())


def test_a_partition_that_is_led_later_is_pulled_with_the_next_image() -> None:
    async def scenario() -> None:
        world = World()
        world.partitions["a"].leads = False
        world.mirroring.image_changed(world.set("a", reason="x"))
        assert world.puller.pulled == {"b", "c"}
        world.partitions["a"].leads = True
        world.mirroring.image_changed(world.image._replace(version=20))
        assert world.puller.pulled == set(TOPICS)

    run(scenario())


def test_a_link_that_cannot_be_used_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is tried again with each change of the metadata: a file may be there by now."""

    async def scenario() -> None:
        world = World()
        del world.mirroring._make
        world.mirroring.pullers.clear()
        for _ in range(3):
            world.mirroring.image_changed(world.set("a", reason=str(world.image.version)))
        assert world.mirroring.pullers == {}
        assert "bootstrap.servers is missing" in world.mirroring.unusable["link"]

    run(scenario())
    assert [each.getMessage() for each in caplog.records if "cannot be used" in each.message] == [
        "the link link cannot be used: bootstrap.servers is missing: brokers of the other cluster"
    ]


def test_another_address_of_the_source_pulls_everything_anew() -> None:
    async def scenario() -> None:
        world = World()
        old = world.puller
        links = {"link": MirrorLink("link", {"bootstrap.servers": "other:1"})}
        world.mirroring.image_changed(world.image._replace(version=2, mirror_links=links))
        assert (old.pulled, world.puller.pulled) == (set(), set(TOPICS))

    run(scenario())
