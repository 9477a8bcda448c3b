"""Brokers that stop in order, lose a folder while they are down, or a log directory while they run: clients
go on, and no replica counts as complete that is not. Whole brokers in a simulated world.
"""

from __future__ import annotations

import errno

import pytest
from sim_machine import DATA
from test_sim_replication import Trio, tell

SECOND = "/second"


async def wait_in_sync(trio: Trio) -> None:
    await trio.world.until(lambda: not trio.behind())


def test_a_rolling_restart_disturbs_no_producer() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        producer = await trio.begin("p")
        await trio.produce(producer, 5)
        for node in (1, 2, 3):
            await wait_in_sync(trio)
            took = trio.world.loop.create_task(trio.produce(producer, 100))
            await trio.world.sleep_ms(200)
            led = trio.leader(("t", 0)) == node
            before = trio.ensemble.image.topics["t"].partitions[0].leader_epoch
            await trio.machine(node).stop()
            state = trio.ensemble.image.topics["t"].partitions[0]
            assert node not in state.isr
            assert state.leader_epoch - before == led, "handed over before the stop, and once"
            assert max(await took) < 1.0
            await trio.machine(node).start()
        await trio.whole()
        assert trio.ends() == [(305, 305)] * 3
        trio.must_be_alike()

    tell(story)


def test_all_brokers_stop_and_start_again() -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="2")
        await trio.produce(await trio.begin("p"), 5)
        await wait_in_sync(trio)
        began = trio.world.loop.time()
        stops = [trio.world.loop.create_task(machine.stop()) for machine in trio.machines]
        for stop in stops:
            await stop
        assert trio.world.loop.time() - began < 5, "the last ones wait for nobody"
        await trio.start()
        await trio.produce(await trio.begin("q"), 5)
        await trio.whole()
        assert trio.ends() == [(10, 10)] * 3

    tell(story)


@pytest.mark.parametrize("leads", [True, False])
def test_a_folder_that_went_while_the_broker_was_down_is_copied_before_it_counts(leads: bool) -> None:
    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="1")
        await trio.produce(await trio.begin("p"), 20)
        await wait_in_sync(trio)
        node = trio.leader(("t", 0)) if leads else trio.followers()[0]
        other = next(each for each in (1, 2, 3) if each != node)
        await trio.machine(node).stop()
        trio.machine(node).disk.remove_tree(f"{DATA}/t-0")
        await trio.produce(await trio.begin("q"), 5)
        assert node not in trio.in_sync(("t", 0))
        seen = []
        trio.ensemble.on_append = lambda before, after: seen.append(after.topics["t"].partitions[0].isr)
        await trio.machine(node).start()
        await wait_in_sync(trio)
        assert any(node in isr for isr in seen)
        held = trio.held(node).log
        assert (held.log_start_offset, held.log_end_offset) == (0, 25)
        assert trio.held(other).log.log_end_offset == 25
        trio.must_be_alike()

    tell(story)


def test_an_eligible_replica_without_its_folder_does_not_lead() -> None:
    """All stopped in order, so that each counts as complete; the first that starts has lost the topic."""

    async def story(trio: Trio) -> None:
        await trio.create(min_insync_replicas="3")
        await trio.produce(await trio.begin("p"), 20)
        await wait_in_sync(trio)
        for machine in trio.machines:
            await machine.stop()
        state = trio.ensemble.image.topics["t"].partitions[0]
        assert sorted((*state.isr, *state.elr)) == [1, 2, 3]
        trio.machine(1).disk.remove_tree(f"{DATA}/t-0")
        await trio.machine(1).start()
        await trio.world.sleep_ms(3000)
        assert trio.leader(("t", 0)) == -1
        await trio.machine(2).start()
        await trio.world.until(lambda: trio.leader(("t", 0)) == 2)
        await trio.machine(3).start()
        await wait_in_sync(trio)
        assert trio.held(1).log.log_end_offset == 20
        trio.must_be_alike()

    tell(story)


def test_a_log_directory_fails_and_others_lead() -> None:
    async def story(trio: Trio) -> None:
        trio.do_without_invariants()  # they read one directory
        trio.ensemble.on_append = lambda before, after: None
        await trio.create("t", min_insync_replicas="2")
        await trio.create("u", min_insync_replicas="2")
        producer = await trio.begin("p")
        await trio.produce(producer, 5)
        await trio.produce(producer, 5, "u")
        await wait_in_sync(trio)
        node = trio.leader(("t", 0))
        machine = trio.machine(node)
        lost = trio.held(node).log.directory.rsplit("/", 1)[0]
        kept = next(each for each in (DATA, SECOND) if each != lost)
        assert trio.held(node, "u").log.directory.startswith(kept)

        def fault(operation: str, path: str) -> None:
            if path.startswith(lost):
                raise OSError(errno.EIO, "simulated", path)

        machine.disk_fault = fault
        took = await trio.produce(producer, 50)
        assert max(took) < 3.0
        assert trio.leader(("t", 0)) not in (-1, node)
        await trio.world.until(lambda: node not in trio.in_sync(("t", 0)))
        assert trio.ensemble.image.brokers[node].active, "the broker stays"
        assert node in trio.in_sync(("u", 0))
        assert trio.ensemble.image.brokers[node].offline
        await machine.stop()
        machine.disk_fault = lambda operation, path: None
        machine.disk.remove_tree(lost)  # another disk in its place
        await machine.start()
        assert not trio.ensemble.image.brokers[node].offline
        await wait_in_sync(trio)
        await trio.whole()
        trio.must_be_alike("t")
        trio.must_be_alike("u")

    tell(story, log_dirs=f"{DATA},{SECOND}")
