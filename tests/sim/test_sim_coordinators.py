"""Coordinators on several brokers, one situation a test: their broker dies, hangs, or is cut off, with a
transaction in each state, with offsets on their way, with markers due on other brokers.

Whatever happens: a transaction that a client was told is committed is, on all partitions; one that it was
told is aborted is not; none hangs; a group stands where its last acknowledged commit has put it, or at one
that was asked for later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sim_admin import GROUP, TRANSACTION, committed_offsets, create_topics
from sim_client import Disconnected
from sim_cluster import Cluster
from sim_cluster_producer import ClusterProducer
from sim_cluster_reader import settled_everywhere
from sim_machine import Machine
from sim_offsets import commit
from sim_other_coordinators import group_requests, transaction_requests
from sim_producer import Fatal
from sim_reader import PartitionReader
from sim_routes import error_codes
from sim_store import ENSEMBLE
from sim_world import World, simulate
from torture.reading import Place

from moldau.broker.metadata.image import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.broker.stages.coordination import Coordination
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.common.protocol.messages.end_txn import EndTxnRequest
from moldau.common.protocol.messages.find_coordinator import FindCoordinatorRequest

STATE, OFFSETS = (TRANSACTION_STATE_TOPIC, 0), (GROUP_OFFSETS_TOPIC, 0)
PLACES: list[Place] = [("t", 0), ("t", 1), ("t", 2)]
Story = Callable[["Stage"], Awaitable[None]]


class Stage(Cluster):
    """Three brokers. Partition n of "t" is led by broker n + 1 at first."""

    async def set_up(self, *, replicas: int) -> None:
        await self.start()
        rows = [
            CreatableReplicaAssignment(
                partition_index=index, broker_ids=[(index + more) % 3 + 1 for more in range(replicas)]
            )
            for index in range(3)
        ]
        asked = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=rows)
        client = self.client("admin")
        request = CreateTopicsRequest(topics=[asked], timeout_ms=30_000)
        answer = await client.spawn(client.anyone().persist(request, 5))
        assert not answer.topics[0].error_code, answer.topics[0].error_message

    async def begin(self, name: str = "till", **told: Any) -> ClusterProducer:
        """A transactional producer, and its coordinator's topic."""
        producer = ClusterProducer(self.client(name), transactional_id=name, **told)
        await producer.cluster.spawn(producer.initialise())
        return producer

    async def write(self, producer: ClusterProducer, value: str, places: list[Place] = PLACES) -> None:
        """One record in each place, as part of the producer's transaction."""

        async def run() -> None:
            batches = [producer.batch(place, [(b"key", value.encode())]) for place in places]
            await producer.deliver(batches)

        await producer.cluster.spawn(run())

    def ending(self, producer: ClusterProducer, *, commit: bool) -> asyncio.Task[None]:
        return producer.cluster.spawn(producer.end(commit=commit))

    @property
    def coordinator(self) -> Machine:
        """The machine whose broker coordinates transactions, by the metadata."""
        return self.machine(self.leader(STATE))

    def data_place(self, *, not_on: Machine) -> Place:
        """A partition that another broker leads."""
        return next(place for place in PLACES if self.machine(self.leader(place)) is not not_on)

    async def elected(self, place: Place, *, not_node: int) -> int:
        """Wait until another broker leads; its node id."""
        await self.world.until(lambda: self.leader(place) not in (-1, not_node))
        return self.leader(place)

    def state(self, machine: Machine, transactional_id: str = "till") -> str:
        """The transaction's state as this broker's coordinator has it."""
        assert machine.node is not None
        made = machine.node.reached(Coordination).transactions.made
        shard = None if made is None else made.runtime.state(0)
        if shard is None or transactional_id not in shard.transactions:
            return ""
        return shard.transactions[transactional_id].state.name

    async def values(self) -> dict[int, list[str]]:
        """What read_committed readers see in each partition, once nothing hangs and everything is whole."""
        await self.heal()
        await self.world.until(lambda: not self.behind())
        judge = self.client(f"judge {self.world.loop.time()}")
        ends, hanging = await judge.spawn(settled_everywhere(judge, PLACES, self.addresses, 60))
        assert not hanging, hanging
        found: dict[int, list[str]] = {}
        for place, end in ends.items():
            reader = PartitionReader(judge.leader(place), place, 20_000)

            async def read(reader: PartitionReader = reader, end: int = end) -> None:
                while reader.position < end:
                    await reader.step()

            await judge.spawn(read())
            reader.must_be_closed()
            assert not reader.complaints
            found[place[1]] = [(one.value or b"").decode() for one in reader.seen]
        return found


def everywhere(*values: str) -> dict[int, list[str]]:
    """The same in each partition."""
    return {index: list(values) for _, index in PLACES}


def never_written(machine: Machine) -> None:
    """From now on the broker's transaction coordinator writes no markers."""

    async def hangs(marker: Any, partitions: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    assert machine.node is not None
    machine.node.reached(Coordination).markers.write = hangs  # type: ignore[method-assign]


def tell(story: Story, seed: int = 1, *, replicas: int = 3, **settings: str) -> None:
    async def scenario(world: World) -> None:
        stage = Stage(world, 3, **settings)
        await stage.set_up(replicas=replicas)
        await story(stage)

    simulate(scenario, seed)


BOTH = pytest.mark.parametrize("transactions", [1, 2])


@BOTH
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_transaction_on_three_brokers_ends_on_all_of_them(replicas: int, transactions: int) -> None:
    """And soon: the next one begins without a retry a client would feel."""

    async def story(stage: Stage) -> None:
        producer = await stage.begin(transactions=transactions)
        loop = stage.world.loop
        took = []
        for number in range(6):
            began = loop.time()
            await stage.write(producer, f"v{number}")
            await stage.ending(producer, commit=number % 2 == 0)
            took.append(loop.time() - began)
        assert sorted(took)[2] < 0.5, took
        seen = await stage.values()
        assert seen == everywhere("v0", "v2", "v4")

    tell(story, replicas=replicas)


@BOTH
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_coordinator_that_dies_with_its_decision_made_and_no_marker_written(
    commit: bool, transactions: int
) -> None:
    async def story(stage: Stage) -> None:
        producer = await stage.begin(transactions=transactions)
        await stage.write(producer, "v")
        old = stage.coordinator
        never_written(old)
        await stage.ending(producer, commit=commit)
        assert stage.state(old).startswith("PREPARE")
        old.kill()
        await stage.write(producer, "next")
        await stage.ending(producer, commit=True)
        assert await stage.values() == everywhere(*(["v", "next"] if commit else ["next"]))

    tell(story)


@BOTH
def test_an_ongoing_transaction_goes_on_with_the_next_coordinator(transactions: int) -> None:
    async def story(stage: Stage) -> None:
        producer = await stage.begin(transactions=transactions)
        await stage.write(producer, "before")
        stage.coordinator.kill()
        await stage.write(producer, "after")
        await stage.ending(producer, commit=True)
        assert await stage.values() == everywhere("before", "after")

    tell(story)


def test_a_dead_producer_s_transaction_is_aborted_by_the_next_coordinator() -> None:
    async def story(stage: Stage) -> None:
        producer = await stage.begin(timeout_ms=3000)
        await stage.write(producer, "never seen")
        producer.cluster.kill()
        stage.coordinator.kill()
        assert await stage.values() == everywhere()

    tell(story)


def test_an_idle_producer_keeps_its_identity_when_its_coordinator_moves() -> None:
    """State Empty: neither fenced nor forgotten; and who takes its name fences it, also after a move."""

    async def story(stage: Stage) -> None:
        producer = await stage.begin()
        stage.coordinator.kill()
        await stage.write(producer, "v0")
        await stage.ending(producer, commit=True)
        other = ClusterProducer(stage.client("other"), transactional_id="till")
        await other.cluster.spawn(other.initialise())
        await stage.heal()
        await stage.world.until(lambda: not stage.behind())
        stage.coordinator.kill()
        with pytest.raises(Fatal):
            await stage.write(producer, "of a fenced one")
        await stage.write(other, "v1")
        await stage.ending(other, commit=True)
        assert await stage.values() == everywhere("v0", "v1")

    tell(story)


@BOTH
def test_the_leader_of_a_partition_dies_between_the_decision_and_its_marker(transactions: int) -> None:
    async def story(stage: Stage) -> None:
        producer = await stage.begin(transactions=transactions)
        await stage.write(producer, "v")
        coordinator = stage.coordinator
        place = stage.data_place(not_on=coordinator)
        leader = stage.leader(place)
        # It hangs: the marker is sent to it, and it may take it from its socket when it goes on.
        stage.machine(leader).pause()
        ending = stage.ending(producer, commit=True)
        new = await stage.elected(place, not_node=leader)
        await ending
        began = stage.world.loop.time()
        await stage.world.until(lambda: stage.state(coordinator) == "COMPLETE_COMMIT")
        assert stage.world.loop.time() - began < 2.0, "nobody waits for a broker that leads no longer"
        assert new != leader
        await stage.write(producer, "next")
        await stage.ending(producer, commit=False)
        stage.machine(leader).kill()
        assert await stage.values() == everywhere("v")

    tell(story)


def test_a_topic_that_is_deleted_while_its_markers_wait_needs_none() -> None:
    async def story(stage: Stage) -> None:
        client = stage.client("creator")
        await client.spawn(create_topics(client.anyone(), {"gone": 3}))
        producer = await stage.begin()
        await stage.write(producer, "v", [*PLACES, ("gone", 0), ("gone", 1), ("gone", 2)])
        coordinator = stage.coordinator
        leaders = {stage.leader(("gone", index)) for index in range(3)}
        away = next(each for each in sorted(leaders) if stage.machine(each) is not coordinator)
        stage.machine(away).kill()
        ending = stage.ending(producer, commit=True)
        await stage.world.sleep_ms(8000)
        assert stage.state(coordinator) == "PREPARE_COMMIT", "its only replica is away"
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=30_000)
        await client.spawn(client.anyone().persist(request, 6))
        await stage.world.until(lambda: stage.state(coordinator) == "COMPLETE_COMMIT")
        await ending
        assert await stage.values() == everywhere("v")

    tell(story)


@BOTH
@pytest.mark.parametrize("how", ["hangs", "cut off", "cut off from brokers"])
@pytest.mark.seeds(2)
def test_a_deposed_coordinator_that_does_not_know_it_decides_nothing(
    how: str, transactions: int, seed: int
) -> None:
    """A client goes on talking to it. What it is told is true of the cluster."""

    async def story(stage: Stage) -> None:
        producer = await stage.begin(transactions=transactions)
        await stage.write(producer, "v0")
        await stage.ending(producer, commit=True)
        await stage.write(producer, "v1")
        old, network = stage.coordinator, stage.world.network
        number = stage.leader(STATE)
        if how == "hangs":
            old.pause()
        for each in stage.machines:
            if each is not old and how != "hangs":
                network.separate(old.name, each.name)
        if how == "cut off":
            network.separate(old.name, ENSEMBLE)
        ending = stage.ending(producer, commit=True)
        if how == "cut off from brokers":
            # It keeps its session, so it leads on; its followers leave the in-sync set, and it commits alone
            # once min.insync.replicas allows that. Here it does not: two must have it.
            await stage.world.sleep_ms(8000)
            assert not ending.done()
            network.join_all()
        else:
            await stage.elected(STATE, not_node=number)
            await asyncio.wait_for(ending, 30)
            old.resume()
            network.join_all()
        await ending
        await stage.write(producer, "v2")
        await stage.ending(producer, commit=False)
        await stage.write(producer, "v3")
        await stage.ending(producer, commit=True)
        assert await stage.values() == everywhere("v0", "v1", "v3")

    tell(story, seed)


@BOTH
def test_a_deposed_coordinator_says_nothing_final_from_what_was_true_before(transactions: int) -> None:
    """The next transaction is open with the new coordinator. The old one has the last one, which is
    committed: by version 1 it would say that this one is, by version 2 that the producer is in a wrong state.
    """

    async def story(stage: Stage) -> None:
        producer = await stage.begin(transactions=transactions)
        await stage.write(producer, "v0")
        await stage.ending(producer, commit=True)
        old, network = stage.coordinator, stage.world.network
        number = stage.leader(STATE)
        await stage.world.until(lambda: stage.state(old) == "COMPLETE_COMMIT")
        for name in (ENSEMBLE, "till", *(each.name for each in stage.machines if each is not old)):
            network.separate(old.name, name)
        await stage.elected(STATE, not_node=number)
        await stage.write(producer, "v1")
        producer_id, producer_epoch = map(int, producer.identity.split(":"))
        request = EndTxnRequest(
            transactional_id="till", producer_id=producer_id, producer_epoch=producer_epoch, committed=True
        )
        client = stage.client("astray")
        try:
            answer = await client.spawn(client.ask(old.address, request, 5 if transactions == 2 else 1))
            assert answer.error_code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
        except Disconnected:
            pass  # it tells nothing at all
        assert stage.state(old) == "COMPLETE_COMMIT", "it knows nothing of the transaction that is open"
        network.join_all()
        await stage.ending(producer, commit=True)
        assert await stage.values() == everywhere("v0", "v1")

    tell(story)


def test_the_coordinator_serves_only_what_it_leads_and_says_so() -> None:
    """NOT_COORDINATOR from every other broker, for each API that has a coordinator."""

    async def story(stage: Stage) -> None:
        producer = await stage.begin()
        client = stage.client("asks all")
        keeper = client.coordinator("g", GROUP)
        assert await client.spawn(commit_soon(keeper, "g", {("t", 0): 1})) == 0
        for place, requests in ((STATE, transaction_requests("till")), (OFFSETS, group_requests("g"))):
            for machine in stage.machines:
                if stage.machine(stage.leader(place)) is machine:
                    continue
                for request, version in requests:
                    answer = await client.spawn(client.ask(machine.address, request, version))
                    codes = error_codes(answer)
                    assert codes == {ErrorCode.NOT_COORDINATOR}, (type(request).__name__, codes)
        assert producer.identity

    tell(story)


def test_with_too_few_brokers_a_client_is_told_and_served_when_there_are_enough() -> None:
    """Kafka's defaults ask for three replicas. The first broker of a cluster does not make the topics with
    one, and lets nobody hang."""

    async def scenario(world: World) -> None:
        stage = Stage(world, 3)
        for machine in stage.machines[:2]:
            await machine.start()
        client = stage.client("early")
        for kind, what in ((GROUP, "offsets"), (TRANSACTION, "transaction")):
            request = FindCoordinatorRequest(key="x", key_type=kind)
            answer = await client.spawn(client.ask(stage.machines[0].address, request, 3))
            assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert "only 2 broker(s)" in answer.error_message, answer.error_message
            node = stage.machines[0].node
            assert node is not None
            assert any(what in name for name in node.controller.uncreated)
        await stage.machines[2].start()
        keeper = client.coordinator("g", GROUP)
        assert await client.spawn(commit_soon(keeper, "g", {("__consumer_offsets", 0): 1})) == 0
        assert sorted(stage.ensemble.image.topics[GROUP_OFFSETS_TOPIC].partitions[0].replicas) == [1, 2, 3]

    simulate(scenario, 1)


def test_every_broker_finds_the_same_coordinators_also_after_a_move() -> None:
    async def story(stage: Stage) -> None:
        await stage.begin()
        client = stage.client("looks")
        keeper = client.coordinator("g", GROUP)
        await client.spawn(commit_soon(keeper, "g", {("t", 0): 1}))

        async def found(machine: Machine, kind: int) -> set[tuple[int, str, int, int]]:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g", "till", "x", "y"])
            answer = await client.ask(machine.address, request, 4)
            return {(one.node_id, one.host, one.port, one.error_code) for one in answer.coordinators}

        for move in (False, True):
            for kind, place in ((GROUP, OFFSETS), (TRANSACTION, STATE)):
                if move:
                    old = stage.leader(place)
                    stage.machine(old).kill()
                    await stage.elected(place, not_node=old)
                    await stage.heal()
                    await stage.world.until(lambda: not stage.behind())
                leader = stage.leader(place)
                address = (leader, *stage.machine(leader).address, 0)
                for machine in stage.machines:
                    assert await client.spawn(found(machine, kind)) == {address}

    tell(story)


async def commit_soon(keeper: Any, group: str, offsets: dict[Place, int]) -> int:
    """Commit until that is acknowledged."""
    while True:
        try:
            code = await commit(keeper, group, offsets)
        except Disconnected:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not code:
            return 0
        await keeper.pause()


@pytest.mark.seeds(6)
def test_a_group_s_coordinator_dies_between_a_commit_and_its_answer(seed: int) -> None:
    async def story(stage: Stage) -> None:
        keeper = stage.client("keeper").coordinator("g", GROUP)
        await keeper.cluster.spawn(commit_soon(keeper, "g", {("t", 0): 0}))
        for offset in range(1, 4):
            machine = stage.machine(stage.leader(OFFSETS))
            machine.die_after(stage.world.random.randrange(60))
            await keeper.cluster.spawn(commit_soon(keeper, "g", {("t", 0): offset}))
            machine.die_after(None)
            other = stage.client(f"reader {offset}")
            found = await other.spawn(committed_offsets(other.coordinator("g", GROUP), "g"))
            assert found == {("t", 0): offset}
            await stage.heal()
            await stage.world.until(lambda: not stage.behind())

    tell(story, seed)
