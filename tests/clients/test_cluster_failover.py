"""Every client lives through the loss of its leaders and its coordinator without being made anew.

All clients run at once against one cluster, each with a producer and a group member on a topic of its own.
Every broker leads a partition of each topic, and one is the coordinator of all groups: that one is killed
(kill -9), and the next one is stopped in order. Then each client is judged alone.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from client_agents import AgentClient, AgentMember
from client_model import Client, Member, eventually
from client_steady import AgentSteady, Steady, steady
from conftest import CLIENT_NAMES, KIND, OLD_JAVA, SETTINGS, make_client

from moldau.common.records.batch import iter_batches
from moldau.testing import Cluster

pytestmark = [
    pytest.mark.xdist_group("cluster"),
    pytest.mark.timeout(1500),
    pytest.mark.skipif(KIND != "moldau", reason="starts a cluster of Moldau"),
]
NAMES = (*CLIENT_NAMES, OLD_JAVA)
PARTITIONS = 3
OFFSETS_PARTITIONS, COORDINATORS = 3, 1
RECOVERED_WITHIN_S = 240.0


@dataclass
class Life:
    """One client's producer and member, and what they did."""

    client: Client
    topic: str
    producer: Steady | AgentSteady
    member: Member
    acknowledged: list[str] = field(default_factory=list)
    read: Counter[str] = field(default_factory=Counter)
    failure: BaseException | None = None

    def take(self) -> int:
        """Take what the member has read; the number of values seen."""
        self.read.update((one.value or b"").decode() for one in self.member.take())
        return len(self.read)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings: dict[str, Any] = {
        **SETTINGS,
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    racks = {node: {"broker.rack": f"rack-{node}"} for node in (1, 2, 3)}
    with Cluster(3, settings, each=racks) as one:
        yield one


@pytest.fixture(scope="module")
def lives(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Life | str]]:
    """Each client after all three brokers were lost in turn; or why it cannot run here."""
    found: dict[str, Life | str] = {}
    folder = tmp_path_factory.mktemp("clients")
    for name in NAMES:
        try:
            client = make_client(name, cluster.bootstrap_servers, folder)
        except pytest.skip.Exception as reason:
            found[name] = str(reason)
            continue
        found[name] = _begin(cluster, client)
    running = [one for one in found.values() if isinstance(one, Life)]
    losses: list[Callable[[int], None]] = [cluster.kill, cluster.stop]
    for lose in losses:
        node = cluster.leader_of("__consumer_offsets", COORDINATORS)
        lose(node)
        _wait_for_progress(running)
        cluster.restart(node)
        cluster.wait_until_in_sync()
    for one in running:
        _end(one)
    yield found
    for one in running:
        one.client.close()


def group_of(client: str) -> str:
    """A group of this client that is kept in the partition COORDINATORS of __consumer_offsets."""
    for number in itertools.count():
        name = f"group-{client}-{number}"
        found = 0
        for letter in name:  # Java's hash of a string
            found = (31 * found + ord(letter)) & 0xFFFF_FFFF
        if (found & 0x7FFF_FFFF) % OFFSETS_PARTITIONS == COORDINATORS:
            return name
    raise AssertionError


def _begin(cluster: Cluster, client: Client) -> Life:
    topic = f"failover-{client.name}"
    cluster.create_topic(topic, PARTITIONS)
    producer = steady(client, cluster.bootstrap_servers, topic, PARTITIONS)
    member = client.open_member(group_of(client.name), [topic])
    life = Life(client, topic, producer, member)
    eventually(life.take, RECOVERED_WITHIN_S)
    return life


def _wait_for_progress(lives: list[Life]) -> None:
    """Until everybody has written and read more; who does not is judged alone and does not stop others."""
    before = [(len(one.producer.acknowledged()), one.take()) for one in lives]
    for one, (written, read) in zip(lives, before, strict=True):
        if one.failure is not None:
            continue
        try:
            # kcat tells no acknowledgements; what its member reads was acknowledged.
            if one.client.name != "kcat":
                eventually(
                    lambda one=one, at=written: len(one.producer.acknowledged()) > at + 20, RECOVERED_WITHIN_S
                )
            eventually(lambda one=one, at=read: one.take() > at + 20, RECOVERED_WITHIN_S)
        except BaseException as failure:
            one.failure = failure


def _end(one: Life) -> None:
    try:
        one.acknowledged = one.producer.stop()
        if one.failure is None:
            eventually(lambda: one.take() >= len(one.acknowledged), RECOVERED_WITHIN_S)
        with contextlib.suppress(TimeoutError):  # KafkaJS's may wait for ever; what it has read is judged
            one.member.close()
    except BaseException as failure:
        one.failure = one.failure or failure


@pytest.mark.parametrize("name", NAMES)
def test_a_client_outlives_its_leaders_and_its_coordinator(
    name: str, cluster: Cluster, lives: dict[str, Life | str], tmp_path: Path
) -> None:
    one = lives[name]
    if isinstance(one, str):
        pytest.skip(one)
    if one.failure is not None:
        raise one.failure
    assert len(one.acknowledged) > 100
    assert not set(one.acknowledged) - set(one.read), "acknowledged and not read by its group"
    reader = make_client("confluent", cluster.bootstrap_servers, tmp_path)
    found = reader.read({one.topic: len(one.acknowledged)})[one.topic]
    places: defaultdict[str, set[tuple[int, int]]] = defaultdict(
        set
    )  # of each value: a reader may repeat one
    for each in found:
        places[(each.value or b"").decode()].add((each.partition, each.offset))
    assert not set(one.acknowledged) - set(places)
    twice = {value: sorted(where) for value, where in places.items() if len(where) > 1}
    assert not twice, "\n".join([f"{twice}", *(_batches(cluster, one.topic, at) for at in twice.values())])


def _batches(cluster: Cluster, topic: str, places: list[tuple[int, int]]) -> str:
    """Who wrote them: the batches at these partitions and offsets."""
    lines = []
    for partition, offset in places:
        folder = cluster.log_folder(cluster.leader_of(topic, partition)) / f"{topic}-{partition}"
        data = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))
        lines += [
            f"{topic}-{partition} at {one.base_offset}: id {one.producer_id}, epoch {one.producer_epoch}, "
            f"sequence {one.base_sequence}, in leader epoch {one.leader_epoch}"
            for one in iter_batches(data, allow_partial_tail=True)
            if one.base_offset <= offset <= one.last_offset
        ]
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["java", OLD_JAVA])
def test_a_consumer_reads_from_the_replica_in_its_rack(name: str, cluster: Cluster, tmp_path: Path) -> None:
    """KIP-392: leaders send it to the follower there, and it reads everything from it."""
    topic = f"racks-{name}"
    cluster.create_topic(topic, PARTITIONS)
    client = make_client(name, cluster.bootstrap_servers, tmp_path)
    assert isinstance(client, AgentClient)
    member = client.open_member(f"group-{topic}", [topic], **{"client.rack": "rack-2"})
    assert isinstance(member, AgentMember)
    writer = steady(
        make_client("confluent", cluster.bootstrap_servers, tmp_path),
        cluster.bootstrap_servers,
        topic,
        PARTITIONS,
    )
    led = {each for each in range(PARTITIONS) if cluster.leader_of(topic, each) == 2}
    read: Counter[str] = Counter()
    seen: set[int] = set()

    def look() -> bool:
        read.update((one.value or b"").decode() for one in member.take())
        seen.update(partition for partition, replica in member.replicas() if replica == 2)
        return seen | led == set(range(PARTITIONS)) and len(read) > 100

    eventually(look, RECOVERED_WITHIN_S)
    written = writer.stop()
    eventually(lambda: look() and set(written) <= set(read), RECOVERED_WITHIN_S)
    member.close()
    client.close()
    assert set(read.values()) == {1}
