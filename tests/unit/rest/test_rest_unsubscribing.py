"""An instance that unsubscribes: the callback of librdkafka gives its partitions up, before anything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from moldau.services.rest.v2 import instance as instance_module
from moldau.services.rest.v2.fields import Place
from moldau.services.rest.v2.instance import Instance, InstanceConfig, Subscription

LIMIT_SECONDS = 60.0


class FakeConsumer:
    """A consumer whose callback waits behind some records; `gives_up` False: it never comes."""

    def __init__(self, gives_up: bool = True) -> None:
        self.did: list[str] = []
        self._assigned = [TopicPartition("t", 0)]
        self._queue: list[Any] = ["record", "record"]
        self._gives_up = gives_up
        self.on_consume: Callable[[], None] = lambda: None

    def unsubscribe(self) -> None:
        self.did.append("unsubscribe")
        if self._gives_up:
            self._queue.append("callback")

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        del callbacks
        self.did.append(f"subscribe {topics}")

    def unassign(self) -> None:
        self.did.append("unassign")
        self._assigned = []

    def consume(self, count: int, timeout: float) -> list[Any]:
        del count
        assert timeout == 0
        self.on_consume()
        if not self._queue:
            return []
        first = self._queue.pop(0)
        if first == "callback":
            self.did.append(first)
            self._assigned = []
            return []
        return [first]

    def assignment(self) -> list[TopicPartition]:
        return list(self._assigned)


def unsubscribed(
    consumer: FakeConsumer, subscription: Subscription, meanwhile: Subscription | None = None
) -> Instance:
    """An instance with this subscription, after its end; `meanwhile` it gets another one."""

    async def run(pool: ThreadPoolExecutor) -> Instance:
        config = InstanceConfig()
        made = Instance("g", "i", config, consumer, False, pool, "ann")  # type: ignore[arg-type]
        made.subscription = subscription
        if meanwhile is not None:
            consumer.on_consume = lambda: setattr(made, "subscription", meanwhile)
        async with asyncio.timeout(LIMIT_SECONDS):
            await made.unsubscribe()
        return made

    with ThreadPoolExecutor(1) as pool:
        return asyncio.run(run(pool))


def test_partitions_of_a_group_are_given_up_by_the_callback_alone() -> None:
    """After `unassign` the callback would come while the consumer closes, and might never end."""
    consumer = FakeConsumer()
    made = unsubscribed(consumer, Subscription(topics=("t",)))
    assert consumer.did == ["unsubscribe", "callback"]
    assert not made.is_assigned()
    assert not made.unread


def test_partitions_that_the_client_chose_have_no_callback() -> None:
    consumer = FakeConsumer()
    made = unsubscribed(consumer, Subscription(places=(Place("t", 0),)))
    assert consumer.did == ["unassign"]
    assert not made.is_assigned()


def test_a_callback_that_does_not_come_is_left_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_module, "_GIVE_UP_SECONDS", 0.02)
    consumer = FakeConsumer(gives_up=False)
    made = unsubscribed(consumer, Subscription(topics=("t",)))
    assert consumer.did == ["unsubscribe"]
    assert not made.is_assigned()


def test_a_subscription_that_comes_meanwhile_stays() -> None:
    consumer = FakeConsumer(gives_up=False)
    later = Subscription(topics=("later",))
    made = unsubscribed(consumer, Subscription(topics=("t",)), later)
    assert made.subscription is later
    assert consumer.did == ["unsubscribe"]


def test_a_pattern_is_not_followed_while_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that it finds meanwhile would be read by nobody, and kept from the group."""
    monkeypatch.setattr(instance_module, "_GIVE_UP_SECONDS", 0.02)
    consumer = FakeConsumer(gives_up=False)

    async def more_topics(now: bool) -> list[str]:
        del now
        return ["t", "u"]

    async def run(pool: ThreadPoolExecutor) -> None:
        made = Instance("g", "i", InstanceConfig(), consumer, False, pool, "ann")  # type: ignore[arg-type]
        made.subscription = Subscription(pattern=".*", find_topics=more_topics)
        following: list[asyncio.Task[None]] = []
        consumer.on_consume = lambda: following.append(asyncio.ensure_future(made.follow_pattern()))
        async with asyncio.timeout(LIMIT_SECONDS):
            await made.unsubscribe()
            await asyncio.gather(*following)
        assert following
        assert consumer.did == ["unsubscribe"]
        made.subscription = Subscription(pattern=".*", find_topics=more_topics)
        await made.follow_pattern()
        assert consumer.did[1:] == ["subscribe ['t', 'u']"]

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(run(pool))
