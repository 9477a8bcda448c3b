"""A broker whose disk is full for a while, fails, or holds damage: what was acknowledged survives, others go
on.

The simulated counterpart of tests/unit/replication/test_start_on_a_full_disk.py and of the disk errors in
tests/unit/ log and handlers, with a whole node and clients over it, and of
`test_one_damaged_partition_costs_the_others_nothing` in tests/clients/test_kill_and_restart.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable

import pytest
from sim_admin import create_topics
from sim_client import SimClient
from sim_deaths import start_until_it_runs
from sim_machine import disk_full
from sim_producer import Fatal, SimProducer
from sim_reader import list_ends, read
from sim_world import World, simulate
from torture.judge_acknowledged import judge_acknowledged

from moldau.broker.log.files.log_directories import NoUsableDirectory
from moldau.broker.metadata.store import MetadataStoreError

TOPIC = "t"
DiskFault = Callable[[str, str], None]


class Writer:
    """Numbered records to one partition; after an error that does not pass it waits, and begins anew."""

    def __init__(self, world: World, address: tuple[str, int]) -> None:
        self.client = SimClient(world, "writer", address)
        self.acknowledged: dict[int, int] = {}
        self.attempted = 0
        self.stopping = False
        self.work = self.client.spawn(self._run())

    async def _run(self) -> None:
        producer = SimProducer(self.client)
        await producer.initialise()
        while not self.stopping:
            number = self.attempted
            self.attempted += 1
            sent = producer.batch((TOPIC, 0), [(None, b"%d" % number)])
            try:
                await producer.deliver([sent])
            except Fatal:
                producer = SimProducer(self.client)
                await producer.initialise()
                continue
            assert sent.base_offset is not None
            self.acknowledged[number] = sent.base_offset


def broken(operation: str, path: str) -> None:
    """A `disk_fault`: writes fail."""
    if operation == "write":
        raise OSError(errno.EIO, "input/output error", path)


def broken_syncs(operation: str, path: str) -> None:
    """A `disk_fault`: what was written cannot be brought to the disk."""
    if operation == "sync":
        raise OSError(errno.EIO, "input/output error", path)


def disk(seed: int, fault: DiskFault, *, power: bool, restarts: bool) -> str:
    """`restarts`: the broker dies while the fault lasts, and at times starts while it lasts."""

    async def scenario(world: World) -> None:
        draw = world.random
        machine = world.machine(
            "node1", moldau_durability="group", log_flush_start_offset_checkpoint_interval_ms="500"
        )
        machine.disk.writes_torn = draw.random() < 0.5
        await machine.start()
        client = SimClient(world, "judge", machine.address)
        await client.spawn(
            create_topics(client, {TOPIC: 1}, internal_segment_bytes=draw.choice(("600", "5000")))
        )
        writer = Writer(world, machine.address)
        for _ in range(3):
            wanted = len(writer.acknowledged) + draw.choice((0, 5, 50))
            await world.until(lambda wanted=wanted: len(writer.acknowledged) >= wanted, 120)
            machine.disk_fault = fault
            await world.sleep_ms(draw.random() * 300)
            if restarts:
                machine.power_cut() if power else machine.kill()
                if fault is disk_full and draw.random() < 0.5:
                    # It may refuse to start, with a sentence.
                    with contextlib.suppress(OSError, MetadataStoreError, NoUsableDirectory):
                        await machine.begin_start()
                    await world.sleep_ms(draw.random() * 300)
            machine.disk_fault = lambda operation, path: None
            if not machine.runs:
                await start_until_it_runs(world, machine, power=power, chance=0.2)
        if not restarts and fault is not disk_full:
            machine.kill()  # an I/O error takes the folder out of use until the broker starts anew
            await machine.start()
        wanted = len(writer.acknowledged) + 5
        await world.until(lambda: len(writer.acknowledged) >= wanted, 120)
        writer.stopping = True
        await asyncio.wait_for(writer.work, 60)
        ends = await client.spawn(list_ends(client, {TOPIC: 1}, committed=True))
        assert ends is not None
        seen, complaints = await client.spawn(read(client, ends))
        complaints += judge_acknowledged(writer.acknowledged, seen)
        assert not complaints, complaints

    return simulate(scenario, seed)[1].digest()


@pytest.mark.parametrize("restarts", [False, True], ids=["lives", "dies"])
def test_a_full_disk_loses_nothing_and_is_used_again(restarts: bool, seed: int) -> None:
    disk(seed, disk_full, power=False, restarts=restarts)


@pytest.mark.parametrize("fault", [broken, broken_syncs], ids=["writes", "syncs"])
@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power cut"])
def test_a_broken_disk_loses_nothing_that_was_acknowledged(fault: DiskFault, power: bool, seed: int) -> None:
    disk(seed, fault, power=power, restarts=True)


def test_one_damaged_partition_costs_the_others_nothing(seed: int) -> None:
    async def scenario(world: World) -> None:
        draw = world.random
        machine = world.machine("node1")
        await machine.start()
        client = SimClient(world, "judge", machine.address)
        names = ("sound", "tail", "id", "segment")
        await client.spawn(create_topics(client, dict.fromkeys(names, 1)))
        producer = SimProducer(client)
        await client.spawn(producer.initialise())
        await client.spawn(
            producer.deliver(
                [producer.batch((name, 0), [(None, b"%d" % one)]) for name in names for one in range(50)]
            )
        )
        if draw.random() < 0.5:
            await machine.stop()
        else:
            machine.kill()
        files = machine.disk
        log = f"{0:020d}.log"
        end = files.file_size_bytes(f"/data/tail-0/{log}")
        descriptor = files.open(f"/data/tail-0/{log}")
        files.pwrite(descriptor, b"\xa5" * draw.choice((3, 70, 700)), end)
        files.close(descriptor)
        descriptor = files.open("/data/id-0/partition.metadata")
        text = files.pread(descriptor, 1000, 0)
        files.pwrite(descriptor, text[:-3] + (b"A" if text[-3:-2] != b"A" else b"B") + text[-2:], 0)
        files.close(descriptor)
        files.remove(f"/data/segment-0/{log}")
        files.make_directory(f"/data/segment-0/{log}")
        await machine.start()
        producer = SimProducer(client)
        await client.spawn(producer.initialise())
        new = {name: producer.batch((name, 0), [(None, b"new")]) for name in names[:3]}
        await client.spawn(producer.deliver(list(new.values())))
        offsets = {name: sent.base_offset for name, sent in new.items()}
        assert offsets == {"sound": 50, "tail": 50, "id": 50}
        seen, complaints = await client.spawn(read(client, {("sound", 0): 51, ("tail", 0): 51}))
        assert not complaints, complaints
        values = [b"%d" % one for one in range(50)] + [b"new"]
        assert [one.value for one in seen] == values * 2
        assert any(
            name.startswith("id-0.") and name.endswith("-stray") for name in files.list_directory("/data")
        )
        refused = client.spawn(producer.deliver([producer.batch(("segment", 0), [(None, b"new")])]))
        await world.sleep_ms(5000)
        assert not refused.done(), "a log that could not be opened took a record"

    simulate(scenario, seed)
