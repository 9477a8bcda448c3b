"""All brokers of a cluster die at once, and not all of them come back. Whole brokers in a simulated world."""

from __future__ import annotations

import asyncio

import pytest
from sim_world import World, simulate
from test_sim_replication import Story, Trio

from moldau.common.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

SEEDS = [1, 2, 3, 4]


def tell(story: Story, seed: int, *, may_lose: bool = False, **settings: str) -> None:
    async def scenario(world: World) -> None:
        trio = Trio(world, 3, **settings)
        trio.invariants.may_lose = may_lose
        await trio.start()
        await story(trio)

    simulate(scenario, seed)


async def wait_in_sync(trio: Trio) -> None:
    await trio.world.until(lambda: not trio.behind())


async def die_at_once(trio: Trio, *, power: bool) -> int:
    """While a producer writes; returns how many records it had acknowledged."""
    await trio.create(min_insync_replicas="2")
    acknowledged = 0
    producer = await trio.begin("p")

    async def write() -> None:
        nonlocal acknowledged
        while True:
            await producer.deliver([producer.batch(("t", 0), [(b"key", b"%d" % acknowledged)])])
            acknowledged += 1

    writing = producer.cluster.spawn(write())
    await wait_in_sync(trio)
    await trio.world.until(lambda: acknowledged > 20)
    await trio.world.sleep_ms(20 * trio.world.random.random())
    for machine in trio.machines:
        machine.power_cut() if power else machine.kill()
    writing.cancel()
    await asyncio.wait([writing])
    return acknowledged


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("durability", "power"), [("os", False), ("group", False), ("group", True)])
def test_two_of_three_serve_all_that_was_acknowledged(durability: str, power: bool, seed: int) -> None:
    async def story(trio: Trio) -> None:
        acknowledged = await die_at_once(trio, power=power)
        back = trio.world.random.sample((1, 2, 3), 2)
        for node in back:
            await trio.machine(node).start()
        await trio.world.until(lambda: trio.leader(("t", 0)) in back, 30)
        assert trio.held(trio.leader(("t", 0))).log.log_end_offset >= acknowledged
        await trio.produce(await trio.begin("q"), 5)
        await trio.whole()
        assert trio.ends()[0][0] >= acknowledged + 5
        trio.must_be_alike()

    tell(story, seed, moldau_durability=durability)


@pytest.mark.parametrize("seed", range(1, 9))
def test_after_a_loss_of_power_the_longest_log_leads_once_all_are_back(seed: int) -> None:
    """With durability os. The order in which they come back says nothing, nor who led."""

    async def story(trio: Trio) -> None:
        await die_at_once(trio, power=True)
        order = trio.world.random.sample((1, 2, 3), 3)
        for node in order[:2]:
            await trio.machine(node).start()
        await trio.world.sleep_ms(5000)
        assert trio.leader(("t", 0)) == -1, "the third may have more"
        ends = {node: end_of(trio, node) for node in order[:2]}
        if seed % 2:
            trio.machine(order[0]).kill()  # what it has told is told again
            await trio.machine(order[0]).start()
        await trio.machine(order[2]).start()
        ends[order[2]] = end_of(trio, order[2])
        await trio.world.until(lambda: trio.leader(("t", 0)) != -1)
        assert ends[trio.leader(("t", 0))] == max(ends.values())
        await trio.produce(await trio.begin("q"), 5)
        await trio.whole()
        trio.must_be_alike()
        assert trio.ends()[0][0] == max(ends.values())[1] + 5
        assert not any(broker.log_ends for broker in trio.ensemble.image.brokers.values())

    tell(story, seed, may_lose=True, moldau_durability="os")


def end_of(trio: Trio, node: int) -> tuple[int, int]:
    """The newest leader epoch and the end of a broker's log, before anybody follows."""
    log = trio.held(node).log
    return log.latest_leader_epoch, log.log_end_offset


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_does_not_come_back_is_said_to_be_gone(seed: int) -> None:
    async def story(trio: Trio) -> None:
        await die_at_once(trio, power=True)
        gone, *back = trio.world.random.sample((1, 2, 3), 3)
        trio.machine(gone).replace_disk()
        for node in back:
            await trio.machine(node).start()
        await trio.world.sleep_ms(5000)
        assert trio.leader(("t", 0)) == -1
        ends = {node: end_of(trio, node) for node in back}
        await elect_unclean(trio)
        await trio.world.until(lambda: trio.leader(("t", 0)) != -1)
        assert ends[trio.leader(("t", 0))] == max(ends.values())
        await trio.produce(await trio.begin("q"), 5)
        await trio.machine(gone).start()
        await trio.whole()
        trio.must_be_alike()

    tell(story, seed, may_lose=True, moldau_durability="os")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_lost_power_alone_waits_for_one_that_did_not(seed: int) -> None:
    """Two lose power, of the third only the process dies: it has everything."""

    async def story(trio: Trio) -> None:
        acknowledged = await die_at_once(trio, power=False)
        whole, *cut = trio.world.random.sample((1, 2, 3), 3)
        for node in cut:
            trio.invariants.has_lost(trio.machine(node))
            trio.machine(node).power_cut()
            await trio.machine(node).start()
        await trio.world.sleep_ms(3000)
        assert trio.leader(("t", 0)) == -1
        await trio.machine(whole).start()
        await trio.world.until(lambda: trio.leader(("t", 0)) == whole)
        await trio.whole()
        assert trio.ends()[0][0] >= acknowledged
        trio.must_be_alike()

    tell(story, seed, moldau_durability="os")


def test_a_wiped_broker_that_was_the_last_follows_once_another_leads() -> None:
    """It had all records alone. While nobody leads it stays offline; an unclean election ends that."""

    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="1")
        await trio.produce(await trio.begin("p"), 20)
        await wait_in_sync(trio)
        last = trio.leader(("t", 0))
        others = [node for node in (1, 2, 3) if node != last]
        for node in others:
            await trio.machine(node).stop()
        await trio.produce(await trio.begin("q"), 5)
        trio.machine(last).kill()
        trio.machine(last).replace_disk()
        for node in others:
            await trio.machine(node).start()
        await trio.machine(last).start()
        await trio.world.until(lambda: trio.ensemble.image.brokers[last].offline)
        await trio.world.sleep_ms(2000)
        assert trio.leader(("t", 0)) == -1
        assert trio.held(last).log.offline
        await elect_unclean(trio)
        await wait_in_sync(trio)
        assert not trio.ensemble.image.brokers[last].offline
        await trio.produce(await trio.begin("r"), 5)
        await trio.whole()
        trio.must_be_alike()
        assert trio.ends() == [(25, 25)] * 3

    tell(story, 1, may_lose=True)


async def elect_unclean(trio: Trio) -> None:
    client = trio.client("elects")
    asked = ElectLeadersRequest(
        election_type=1, topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=30_000
    )
    answer = await client.spawn(client.anyone().persist(asked, 2))
    result = answer.replica_election_results[0].partition_result[0]
    assert not result.error_code, result.error_message


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_wiped_broker_starts_although_the_store_loses_answers(seed: int) -> None:
    """What it lacks is told again, until it is known that it was written."""

    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="3")
        await trio.produce(await trio.begin("p"), 5)
        await wait_in_sync(trio)
        trio.machine(1).kill()
        trio.machine(1).replace_disk()
        await trio.world.until(lambda: trio.leader(("t", 0)) not in (-1, 1))
        trio.ensemble.loss = 0.5
        starting = trio.machine(1).begin_start()
        await trio.world.sleep_ms(8000)
        trio.ensemble.loss = 0.0
        assert await starting
        await trio.whole()
        trio.must_be_alike()

    tell(story, seed, may_lose=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_were_deleted_do_not_come_back_with_followers_that_were_killed(seed: int) -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        await trio.produce(await trio.begin("p"), 10)
        await wait_in_sync(trio)
        led, others = trio.leader(("t", 0)), trio.followers()
        client = trio.client("deletes")
        row = DeleteRecordsPartition(partition_index=0, offset=5)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[row])])
        request.timeout_ms = 10_000
        answer = await client.spawn(client.leader(("t", 0)).persist(request, 2))
        assert not answer.topics[0].partitions[0].error_code
        for machine in trio.machines:
            machine.kill()
        for node in others:
            await trio.machine(node).start()
        await trio.world.until(lambda: trio.leader(("t", 0)) in others)
        assert trio.held(trio.leader(("t", 0))).log.log_start_offset == 5
        await trio.machine(led).start()
        await trio.whole()

    tell(story, seed)
