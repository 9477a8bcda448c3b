"""What an administrator does to a cluster's topics while clients are at work, drawn from the seed.

Each change is a coroutine, as the misfortunes of sim_cluster_faults.py are, and runs beside them. An
administrator asks until an answer is certain: after a lost one the change was made or not.

`orders` stays, and gets more partitions. `brief` is deleted and made again, with clients of its own: what was
in the topic of that name before is promised nothing, and must not come back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from histories.history import ACKNOWLEDGED, History, Trim
from sim_client import RETRIABLE, Disconnected
from sim_cluster import Cluster
from sim_cluster_group import Group
from sim_cluster_load import IDEMPOTENT, PLAIN, TRANSACTIONAL, ClusterLoad
from sim_cluster_reader import ClusterReader, end_of
from sim_machine import Machine
from sim_routes import Routed, error_codes
from torture.reading import Place

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.common.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.common.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.common.protocol.messages.unregister_broker import UnregisterBrokerRequest

BRIEF = "brief"
_TOPIC = 2
_PREFERRED = 0
_LATER = RETRIABLE | {ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REPLICATION_FACTOR}


class Scene:
    """A cluster and all who use it."""

    def __init__(self, cluster: Cluster, history: History, places: list[Place]) -> None:
        self.cluster, self.history = cluster, history
        self.places = places
        """Of `orders`; grows."""
        self.loads: list[ClusterLoad] = []
        self.readers: list[ClusterReader] = []
        self.group: Group | None = None
        self.topics = {"orders": len(places)}
        self.brief: list[Place] = []
        self.brief_id = b""
        self.brief_clients: list[ClusterLoad | ClusterReader] = []
        self.times = 0
        self.notes: list[str] = []
        """The changes, for whoever reads a failure."""
        self.admin = cluster.client("administrator")
        self.draw = cluster.world.draw("administrator")

    @property
    def over(self) -> bool:
        """Whether all producers are done."""
        return all(one.over for one in self.loads)

    async def ask(self, route: Routed, request: Any, version: int, but: Sequence[int] = ()) -> set[int]:
        """Ask until the answer is certain; its error codes, which are among `but`."""
        while True:
            codes = error_codes(await route.persist(request, version))
            if not codes & _LATER:
                assert codes <= set(but), (type(request).__name__, [ErrorCode(code) for code in codes])
                return codes
            await route.pause()

    async def once(self, request: Any, version: int, done: ErrorCode) -> None:
        """Ask until it is made. `done` tells that it was made before, and may only follow an uncertain
        answer: a broker that knows old metadata must not decide by it.
        """
        route, uncertain = self.admin.anyone(), False
        told: list[set[int]] = []
        while True:
            try:
                codes = error_codes(await route.call(request, version))
            except Disconnected:
                codes, uncertain = {int(ErrorCode.REQUEST_TIMED_OUT)}, True
            if not codes or (uncertain and codes == {done}):
                return
            told.append(codes)
            assert codes <= _LATER - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, done}, (
                type(request).__name__,
                told,
            )
            uncertain = uncertain or ErrorCode.REQUEST_TIMED_OUT in codes
            await route.pause()

    async def change(self, kinds: Sequence[Change], count: int) -> None:
        """So many changes, one after the other."""
        for _ in range(count):
            await self.cluster.world.sleep_ms(500 * self.draw.random())
            kind = self.draw.choice(kinds)
            loop = self.cluster.world.loop
            loop.trace.add(loop.time(), "administrator", kind.__name__)
            self.notes.append(f"{loop.time():.3f} {kind.__name__}")
            await kind(self, self.draw)

    def some_place(self) -> Place:
        """A partition of `orders`, sometimes of an internal topic."""
        image = self.cluster.ensemble.image
        internal = [name for name in sorted(image.topics) if name.startswith("__")]
        if internal and self.draw.random() < 0.3:
            return self.draw.choice(internal), 0
        return self.draw.choice(self.places)


Change = Callable[[Scene, random.Random], Coroutine[Any, Any, None]]


async def add_a_partition(scene: Scene, draw: random.Random) -> None:
    """Producers, readers and the group find it."""
    del draw
    count = len(scene.places) + 1
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="orders", count=count, assignments=None)], timeout_ms=10_000
    )
    await scene.ask(scene.admin.anyone(), request, 2, [ErrorCode.INVALID_PARTITIONS])
    place = ("orders", count - 1)
    scene.places.append(place)
    scene.topics["orders"] = count
    for reader in scene.readers:
        if reader not in scene.brief_clients:
            reader.add(place)


async def set_min_insync(scene: Scene, draw: random.Random) -> None:
    """Also to what it was."""
    await _set(scene, "orders", {"min.insync.replicas": draw.choice(("1", "2", "2"))})


async def set_segment_bytes(scene: Scene, draw: random.Random) -> None:
    """Segments roll more often, or less."""
    await _set(scene, "orders", {"internal.segment.bytes": draw.choice(("300", "1000", "1000000"))})


async def _set(scene: Scene, topic: str, values: dict[str, str]) -> None:
    rows = [AlterableConfig(name=name, value=value) for name, value in values.items()]
    resource = AlterConfigsResource(resource_type=_TOPIC, resource_name=topic, configs=rows)
    await scene.ask(scene.admin.anyone(), IncrementalAlterConfigsRequest(resources=[resource]), 0)


async def delete_records(scene: Scene, draw: random.Random) -> None:
    """Up to somewhere below the high watermark."""
    place = draw.choice(scene.places)
    end = await end_of(scene.admin, place, committed=False)
    if not end:
        return
    if draw.random() < 0.4:
        await _beyond(scene, place, end + draw.randint(1, 20))
        return
    trim = Trim(place, draw.randint(0, end), scene.cluster.world.loop.time())
    scene.history.trims.append(trim)
    row = DeleteRecordsPartition(partition_index=place[1], offset=trim.offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=place[0], partitions=[row])], timeout_ms=2000
    )
    # A new leader may not know yet that so much is committed.
    for _ in range(draw.randint(1, 5)):
        codes = error_codes(await scene.admin.leader(place).persist(request, 2))
        if not codes:
            trim.outcome, trim.ended_s = ACKNOWLEDGED, scene.cluster.world.loop.time()
            return
        assert codes <= _LATER | {ErrorCode.OFFSET_OUT_OF_RANGE}, codes
        await scene.admin.pause()


async def _beyond(scene: Scene, place: Place, offset: int) -> None:
    """What is not committed cannot be deleted; by the time it is asked for it may be. Followers are slow
    meanwhile, so that something is written and not committed.
    """
    cluster = scene.cluster
    leader = cluster.leader(place)
    partition = cluster.partition(leader, place)
    slow = [machine.name for machine in cluster.machines if machine.settings["node.id"] != str(leader)]
    for name in slow:
        cluster.world.network.slow_hosts[name] = 0.3
    end = cluster.world.loop.time() + 2
    while partition is not None and cluster.world.loop.time() < end:
        if partition.log.written_end_offset > partition.high_watermark:
            offset = partition.log.written_end_offset
            break
        await cluster.world.sleep_ms(5)
    trim = Trim(place, offset, scene.cluster.world.loop.time())
    scene.history.trims.append(trim)
    row = DeleteRecordsPartition(partition_index=place[1], offset=offset)
    topics = [DeleteRecordsTopic(name=place[0], partitions=[row])]
    codes = error_codes(
        await scene.admin.leader(place).persist(DeleteRecordsRequest(topics=topics, timeout_ms=2000), 2)
    )
    for name in slow:
        cluster.world.network.slow_hosts.pop(name, None)
    if not codes:
        trim.outcome, trim.ended_s = ACKNOWLEDGED, scene.cluster.world.loop.time()


async def reassign(scene: Scene, draw: random.Random) -> None:
    """Other replicas, in another order, two or more of them; or the move under way is cancelled."""
    place = scene.some_place()
    nodes = range(1, len(scene.cluster.machines) + 1)
    replicas = draw.sample(nodes, draw.randint(2, min(3, len(nodes)))) if draw.random() < 0.85 else None
    await _move(scene, place, replicas)


async def _move(scene: Scene, place: Place, replicas: list[int] | None) -> None:
    row = ReassignablePartition(partition_index=place[1], replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=place[0], partitions=[row])])
    await scene.ask(
        scene.admin.anyone(),
        request,
        0,
        [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, ErrorCode.INVALID_REPLICA_ASSIGNMENT],
    )


async def elect_preferred(scene: Scene, draw: random.Random) -> None:
    """The first replica leads, if it is in sync."""
    place = scene.some_place()
    request = ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[TopicPartitions(topic=place[0], partitions=[place[1]])],
        timeout_ms=draw.choice((100, 5000)),
    )
    await scene.ask(
        scene.admin.anyone(),
        request,
        2,
        [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE],
    )


async def remove_a_broker(scene: Scene, draw: random.Random) -> None:
    """Its replicas move to others, it stops and is forgotten, and comes back as a new one."""
    cluster = scene.cluster
    machine = draw.choice(cluster.machines)
    node_id = int(machine.settings["node.id"])
    others = [node for node in range(1, len(cluster.machines) + 1) if node != node_id]
    if len(others) < 3:
        return

    def held() -> list[tuple[Place, tuple[int, ...]]]:
        return [
            ((name, index), state.target or state.replicas)
            for name, topic in cluster.ensemble.image.topics.items()
            for index, state in enumerate(topic.partitions)
            if node_id in (*state.target, *state.replicas)
        ]

    for place, nodes in held():
        kept = [node for node in nodes if node != node_id]
        if len(kept) < len(nodes):
            kept.append(draw.choice([node for node in others if node not in kept]))
        await _move(scene, place, kept)
    end = cluster.world.loop.time() + 20
    while held() and cluster.world.loop.time() < end:
        await cluster.world.sleep_ms(50)
    if held() or not machine.runs or machine.node is None or machine.node.phase != "RUNNING":
        return
    await machine.stop()
    codes = error_codes(await scene.admin.anyone().persist(UnregisterBrokerRequest(broker_id=node_id), 0))
    scene.notes.append(f"broker {node_id} removed: {codes or 'done'}")
    await cluster.world.sleep_ms(1000 * draw.random())
    while not machine.runs:
        await machine.begin_start()


async def make_brief_again(scene: Scene, draw: random.Random) -> None:
    """Delete the topic `brief`, if it is there, and make it again, now and then a little later. A broker that
    stands still meanwhile learns of both at once.
    """
    if draw.random() < 0.4:
        scene.admin.background(
            _stands_still(scene, draw.choice(scene.cluster.machines), 1500 * draw.random())
        )
    if scene.brief:
        for client in scene.brief_clients:
            client.kill()
        scene.loads = [one for one in scene.loads if one not in scene.brief_clients]
        scene.readers = [one for one in scene.readers if one not in scene.brief_clients]
        # By its name: what was asked of a broker that stands still, and of another one since, deletes the
        # topic that was made anew when that one goes on (in Kafka too).
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=scene.brief_id)], timeout_ms=10_000
        )
        await scene.once(request, 6, ErrorCode.UNKNOWN_TOPIC_ID)
        history = scene.history
        history.sends[:] = [one for one in history.sends if one.place[0] != BRIEF]
        history.polls[:] = [one for one in history.polls if one.place[0] != BRIEF]
        scene.brief = []
        await scene.cluster.world.sleep_ms(draw.choice((0, 0, 2000)) * draw.random())
    count = draw.randint(1, 2)
    replicas = draw.choice((1, 3, 3))
    row = CreatableTopicConfig(name="min.insync.replicas", value="2" if replicas > 1 else "1")
    topic = CreatableTopic(name=BRIEF, num_partitions=count, replication_factor=replicas, configs=[row])
    await scene.once(CreateTopicsRequest(topics=[topic]), 5, ErrorCode.TOPIC_ALREADY_EXISTS)
    _use_brief(scene, draw, count)


async def _stands_still(scene: Scene, machine: Machine, duration_ms: float) -> None:
    machine.pause()
    await scene.cluster.world.sleep_ms(duration_ms)
    machine.resume()


def _use_brief(scene: Scene, draw: random.Random, count: int) -> None:
    scene.times += 1
    cluster, history = scene.cluster, scene.history
    scene.brief = [(BRIEF, index) for index in range(count)]
    # By its name a broker that has not heard of it yet would answer for the topic that was deleted.
    scene.brief_id = cluster.ensemble.image.topics[BRIEF].topic_id
    topic_ids = {BRIEF: scene.brief_id}
    mode = draw.choice((IDEMPOTENT, PLAIN, TRANSACTIONAL))
    load = ClusterLoad(
        cluster.world,
        f"brief{scene.times}",
        cluster.addresses,
        history,
        mode,
        scene.brief,
        3,
        timeout_ms=5000,
        topic_ids=topic_ids,
    )
    reader = ClusterReader(
        cluster.world,
        f"brief reader{scene.times}",
        cluster.addresses,
        history,
        scene.brief,
        committed=draw.random() < 0.5,
        topic_ids=topic_ids,
    )
    scene.brief_clients = [load, reader]
    scene.loads.append(load)
    scene.readers.append(reader)
    load.start()
    reader.start()


CHANGES: tuple[Change, ...] = (
    add_a_partition,
    set_min_insync,
    set_segment_bytes,
    delete_records,
    delete_records,
    reassign,
    reassign,
    elect_preferred,
    make_brief_again,
    make_brief_again,
    remove_a_broker,
)
