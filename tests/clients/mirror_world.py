"""Two clusters of one broker each, and a link between them: for the tests of mirrors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.admin.mirrors import Link, MirrorTopic, alter_mirrors, describe_links
from moldau.client.cluster import Cluster as AdminCluster
from moldau.testing import Broker, Cluster

PATIENCE_SECONDS = 120.0


def wait_for(what: str, found: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> object:
    """What `found` gives once it is something."""
    end = time.monotonic() + seconds
    while True:
        result = found()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def make_topic(servers: str, name: str, partitions: int = 1, **configs: str) -> None:
    """Create a topic, with these settings (underscores for dots)."""
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(name, partitions, replication_factor=1, config=settings)])
    made[name].result(30)


def produce(servers: str, topic: str, values: list[str], partition: int = 0, **settings: object) -> None:
    """Produce these values and wait until they are acknowledged."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, **settings})
    for value in values:
        producer.produce(topic, value.encode(), key=value.encode(), partition=partition)
    assert producer.flush(60) == 0


def read(
    servers: str, topic: str, partition: int = 0, count: int = 0, **settings: object
) -> list[tuple[int, str]]:
    """(offset, value) of the records up to the end, at least `count`."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "mirror-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[int, str]] = []
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error():
                if len(found) >= count:
                    return found
                continue
            found.append((message.offset(), message.value().decode()))
    finally:
        consumer.close()
    raise AssertionError(f"{len(found)} records of {topic}, not {count}")


class Pair:
    """A source and a target, and the target's links."""

    def __init__(
        self,
        source: str,
        target: Broker | Cluster,
        options: Mapping[str, str] | None = None,
        address: str = "",
    ) -> None:
        """`options`: of a client of the target; `address`: its listener for that."""
        self.source, self.target, self._options = source, target, options
        self._address = address

    @contextmanager
    def cluster(self) -> Iterator[AdminCluster]:
        with AdminCluster(self._address or self.target.bootstrap_servers, self._options) as cluster:
            yield cluster

    def act(self, action: str, topics: list[str] | None = None, **more: Any) -> dict[str, str]:
        """Do this with the link; each topic's problem."""
        with self.cluster() as cluster:
            outcomes = alter_mirrors(cluster, action, "link", topics, **more)
        return {each.topic: each.problem for each in outcomes}

    def create(self, topics: str, *, adopt: bool = False, **settings: str) -> dict[str, str]:
        """Make the link, for these topics."""
        own = {key.replace("_", "."): value for key, value in settings.items()}
        own |= {"bootstrap.servers": self.source, "topics": topics}
        return self.act("create", settings=own, adopt=adopt)

    def link(self) -> Link:
        with self.cluster() as cluster:
            (link,) = describe_links(cluster, ["link"])
        return link

    def topic(self, name: str) -> MirrorTopic:
        return next(each for each in self.link().topics if each.name == name)

    def wait_state(self, name: str, state: str) -> MirrorTopic:
        wait_for(f"{name} is {state}", lambda: self.topic(name).state == state)
        return self.topic(name)

    def wait_level(self, name: str, *ends: int) -> None:
        """Until the topic's partitions end here."""

        def level() -> bool:
            topic = self.topic(name)
            return [each.end_offset for each in topic.partitions] == list(ends)

        wait_for(f"{name} ends at {ends}", level)


def stored(data: Path, topic: str, partition: int = 0) -> bytes:
    """All batches of a partition, as they lie in its segments."""
    folder = data / f"{topic}-{partition}"
    return b"".join(each.read_bytes() for each in sorted(folder.glob("*.log")))
