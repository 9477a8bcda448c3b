"""A cluster in a simulated world: some machines, the ensemble that holds their metadata, and what must hold.

cluster = Cluster(world, 3)
await cluster.start()
...
cluster.heal()
complaints = await cluster.drain(history, places, loads, readers)
"""

from __future__ import annotations

from collections.abc import Sequence

from histories.history import History
from sim_cluster_group import Group
from sim_cluster_invariants import ClusterInvariants
from sim_cluster_load import ClusterLoad
from sim_cluster_reader import ClusterReader, read_everything, settled_everywhere, unfenced
from sim_machine import Machine
from sim_network import Endpoint
from sim_routes import ClusterClient
from sim_store import ENSEMBLE, SESSION_TIMEOUT_MS, SimEnsemble
from sim_world import World
from torture.reading import Place

from moldau.broker.metadata.image import NO_LEADER
from moldau.broker.replication.partition import Partition

LAG_MS = 3000
EVENTS_MAX = 60_000
"""Some ten times what a usual run has."""
RACKS = ("a", "b")
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "replica.lag.time.max.ms": str(LAG_MS),
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",  # a skewed clock deletes nothing
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "auto.leader.rebalance.enable": "false",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
}


class Cluster:
    """So many brokers with node ids from 1 on, on machines node1, node2 ..."""

    def __init__(self, world: World, count: int, *, replicas: int = 0, **settings: str) -> None:
        """`replicas`: of the internal topics, else all brokers. Settings with _ for the dots."""
        self.world = world
        world.loop.events_max = EVENTS_MAX
        self.ensemble = SimEnsemble(world.loop, world.network, world.draw("ensemble"))
        told = {key.replace("_", "."): value for key, value in settings.items()}
        world.network.wake_up_seconds_max = 0.005
        copies = str(replicas or count)
        self.machines: list[Machine] = []
        for node_id in range(1, count + 1):
            machine = world.machine(f"node{node_id}")
            machine.settings = {
                "node.id": str(node_id),
                "offsets.topic.replication.factor": copies,
                "transaction.state.log.replication.factor": copies,
                "transaction.state.log.min.isr": str(min(2, replicas or count)),
                "broker.rack": RACKS[node_id % len(RACKS)],
                **_SETTINGS,
                **told,
            }
            machine.store_for = self.ensemble.access
            self.machines.append(machine)
        self.replaced: Machine | None = None
        """The machine that has lost its disk, if one has."""
        self.invariants = ClusterInvariants(self.machines)
        for machine in self.machines:
            machine.may_lose = lambda: self.invariants.may_lose
        self.ensemble.on_append = self.invariants.appended
        self.invariants.image = lambda: self.ensemble.image

    @property
    def addresses(self) -> list[Endpoint]:
        """Where clients find the brokers."""
        return [machine.address for machine in self.machines]

    @property
    def hosts(self) -> list[str]:
        """The brokers' hosts and the ensemble."""
        return [*(machine.name for machine in self.machines), ENSEMBLE]

    async def start(self) -> None:
        """All brokers at once; each knows all of them then."""
        for started in [machine.begin_start() for machine in self.machines]:
            assert await started
        await self.world.until(lambda: not self.behind())

    def client(self, name: str) -> ClusterClient:
        """A client process that knows all brokers."""
        return ClusterClient(self.world, name, self.addresses)

    def leader(self, place: Place) -> int:
        """The leader's node id in the metadata, or -1."""
        return self.ensemble.image.topics[place[0]].partitions[place[1]].leader

    def in_sync(self, place: Place) -> tuple[int, ...]:
        """The in-sync replicas in the metadata."""
        return self.ensemble.image.topics[place[0]].partitions[place[1]].isr

    def machine(self, node_id: int) -> Machine:
        """The machine of a broker."""
        return self.machines[node_id - 1]

    def partition(self, node_id: int, place: Place) -> Partition | None:
        """A broker's replica; None: it has none, or the broker is not there."""
        node = self.machine(node_id).node if node_id > 0 else None
        replicas = getattr(node, "replicas", None)
        return None if replicas is None else replicas.partition(*place)

    # After the faults

    async def heal(self) -> None:
        """Everything works again: hosts reach each other, brokers run, disks write."""
        network = self.world.network
        network.join_all()
        network.latency_seconds_max = 0.002
        network.slow_hosts.clear()
        self.ensemble.away, self.ensemble.loss = False, 0.0
        self.ensemble.held.clear()
        self.ensemble.latency_seconds_max = 0.004
        for machine in self.machines:
            machine.die_after(None)
            machine.disk_fault = lambda operation, path: None
            machine.resume()
            if machine.process is not None:
                machine.process.work_seconds = 0.0
        for machine in self.machines:
            if not machine.runs:
                assert await machine.begin_start()

    def lost_for_good(self) -> bool:
        """Whether a partition had its last copy on the disk that was lost, because others failed meanwhile: a
        person has to decide then (unclean election), and no run can go on.
        """
        if self.replaced is None:
            return False
        last = (int(self.replaced.settings["node.id"]),)
        topics = self.ensemble.image.topics.values()
        return any(
            state.leader == NO_LEADER and (state.isr or state.elr) == last
            for topic in topics
            for state in topic.partitions
        )

    def behind(self) -> list[str]:
        """What is not whole yet: brokers with old metadata, replicas that are not in sync."""
        image, found = self.ensemble.image, []
        for machine in self.machines:
            node = machine.node
            if node is None or node.metadata.image.version != image.version:
                found.append(f"{machine.name} does not know the latest metadata")
        for topic in image.topics.values():
            for index, state in enumerate(topic.partitions):
                if sorted(state.isr) != sorted(state.replicas) or state.target:
                    found.append(f"{topic.name}-{index} is not whole: {state}")
        return found

    def uneven(self) -> list[str]:
        """In-sync replicas that begin before their leader's log, or do not know what is committed. (One may
        begin later: it led when a deletion began that nobody acknowledged.)
        """
        found = []
        for topic in self.ensemble.image.topics.values():
            for index, state in enumerate(topic.partitions):
                known = {}
                for node in state.isr:
                    replicas = getattr(self.machine(node).node, "replicas", None)  # None: it starts
                    partition = replicas.partition(topic.name, index) if replicas is not None else None
                    if partition is not None:
                        known[node] = (partition.log.log_start_offset, partition.high_watermark)
                first = known.get(state.leader, (0, 0))[0]
                ends = {high_watermark for _, high_watermark in known.values()}
                if len(ends) > 1 or any(start < first for start, _ in known.values()):
                    found.append(f"{topic.name}-{index} has other starts or high watermarks: {known}")
        return found

    async def drain(
        self,
        history: History,
        places: Sequence[Place],
        loads: Sequence[ClusterLoad],
        readers: Sequence[ClusterReader] = (),
        group: Group | None = None,
        *,
        seconds_max: float = 300.0,
    ) -> list[str]:
        """Wait until all producers are done and all is read; what is wrong with the batches, or hangs."""
        loop = self.world.loop
        end = loop.time() + seconds_max
        await self.world.until(lambda: all(one.over for one in loads) or loop.time() > end, 2 * seconds_max)
        complaints = [f"{one.name} is not done, after {one.made} attempts" for one in loads if not one.over]
        if not (self.invariants.may_lose or self.invariants.damaged):
            complaints += [line for one in loads for line in one.complaints]
        await self.world.until(lambda: not self.behind() or loop.time() > end + 60, 2 * seconds_max)
        complaints += self.behind()
        await self.world.until(lambda: not self.uneven() or loop.time() > end + 90, 2 * seconds_max)
        complaints += self.uneven()
        if not complaints:
            complaints += self.invariants.roles.forgotten(self.ensemble.image)
        judge = self.client("judge")
        ends, hanging = await judge.spawn(settled_everywhere(judge, places, self.addresses, 60))
        complaints += hanging
        complaints += await judge.spawn(unfenced(judge, ends))
        complaints += await judge.spawn(read_everything(judge, history, ends))
        if not hanging:
            for reader in readers:
                complaints += await reader.finish(ends)
            if group is not None:
                complaints += await group.finish(ends)
        return complaints
