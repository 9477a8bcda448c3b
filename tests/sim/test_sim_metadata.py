"""Topics come, change and go while the broker dies at any step: what was acknowledged is so, and what is,
works.

The simulated counterpart of `test_topics_and_settings_survive`, of the interrupted creation in tests/clients/
test_large_requests_wire.py, and of tests/property/test_metadata_power_cut.py with a whole node over the
store: an acknowledged topic is there under its id with its partitions and settings, and each partition takes
records; an acknowledged deletion stays, and a topic that is made again has none of the old one's records.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from sim_client import RETRIABLE, Disconnected, SimClient
from sim_deaths import start_until_it_runs
from sim_machine import disk_full
from sim_producer import SimProducer
from sim_reader import list_ends, read
from sim_world import World, simulate

from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

NAMES = ("a", "b", "c")
TOPIC = 2
SETTING = "retention.ms"
CHANGES = 25
DISK_ERRORS = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)


@dataclass
class Expected:
    """What may be true of a topic: nothing acknowledged is missing, and what got no answer may be or not."""

    partitions: set[int | None] = field(default_factory=lambda: {None})
    """Counts that are possible; None: it is not there."""
    settings: set[str | None] = field(default_factory=lambda: {None})
    topic_id: bytes | None = None
    life: int = 0
    """Which topic of this name it is."""


class Unwritten(Exception):
    """The answer says that the change could not be written down; it was made or not."""


class Administrator:
    """Creates, changes and deletes topics, and notes what may be true."""

    def __init__(self, world: World, address: tuple[str, int], refused_min: int) -> None:
        """`refused_min`: it goes on until so many changes could not be written down."""
        self._refused_min = refused_min
        self.client = SimClient(world, "administrator", address)
        self.topics = {name: Expected() for name in NAMES}
        self.refused = 0
        self.work = self.client.spawn(self._run())

    async def _run(self) -> None:
        draw = self.client.random
        made = 0
        while made < CHANGES or self.refused < self._refused_min:
            made += 1
            name = draw.choice(NAMES)
            action = draw.choice((self._create, self._create, self._delete, self._alter, self._alter))
            try:
                await action(name, self.topics[name])
            except (Disconnected, Unwritten):
                await self._look(name, self.topics[name])

    async def _create(self, name: str, expected: Expected) -> None:
        count, setting = self.client.random.choice((1, 5)), self._new_setting()
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=count,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=SETTING, value=setting)],
                )
            ]
        )
        was_away = expected.partitions == {None}
        if was_away:
            expected.partitions, expected.settings = {None, count}, {setting}
            expected.topic_id = None
            expected.life += 1
        (row,) = (await self.client.call(request, 7)).topics
        self._must_be_written(row.error_code)
        assert row.error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS), row.error_message
        if was_away:
            assert not row.error_code, f"{name} was deleted, and is there"
            expected.partitions, expected.topic_id = {count}, row.topic_id
        else:
            assert row.error_code, f"{name} was there, and could be created"

    async def _delete(self, name: str, expected: Expected) -> None:
        was = expected.partitions
        expected.partitions = was | {None}
        answer = await self.client.call(DeleteTopicsRequest(topic_names=[name]), 5)
        (row,) = answer.responses
        self._must_be_written(row.error_code)
        there = None not in was
        assert bool(row.error_code) != there, (name, row.error_code, was)
        expected.partitions = {None}

    async def _alter(self, name: str, expected: Expected) -> None:
        setting = self._new_setting()
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name=name,
                    configs=[AlterableConfig(name=SETTING, value=setting)],
                )
            ]
        )
        if None not in expected.partitions:
            expected.settings = expected.settings | {setting}
        (row,) = (await self.client.call(request, 1)).responses
        self._must_be_written(row.error_code)
        assert bool(row.error_code) == (None in expected.partitions), (name, row.error_message)
        if not row.error_code:
            expected.settings = {setting}

    def _must_be_written(self, code: int) -> None:
        if code in DISK_ERRORS:
            self.refused += 1
            raise Unwritten

    def _new_setting(self) -> str:
        return str(3_600_000 + self.client.random.randrange(1_000_000))

    async def _look(self, name: str, expected: Expected) -> None:
        """What is true now; AssertionError when it may not be."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        while True:
            (row,) = (await self.client.persist(request, 12)).topics
            if row.error_code in RETRIABLE - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
                await self.client.pause()
                continue
            break
        found = None if row.error_code else len(row.partitions)
        assert found in expected.partitions, f"{name} has {found} partitions, expected {expected.partitions}"
        expected.partitions = {found}
        if found is not None:
            assert expected.topic_id in (None, row.topic_id), f"{name} has another id"
            expected.topic_id = row.topic_id
            told = await self._setting(name)
            assert told in expected.settings, f"{name} has {told}, expected {expected.settings}"
            expected.settings = {told}

    async def _setting(self, name: str) -> str:
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=name, configuration_keys=[SETTING]
        )
        answer = await self.client.persist(DescribeConfigsRequest(resources=[resource]), 4)
        return str(answer.results[0].configs[0].value)

    async def check(self) -> None:
        """Everything is as expected, and each partition of what is there takes records, and has no others."""
        for name, expected in self.topics.items():
            await self._look(name, expected)
            (count,) = expected.partitions
            if count is None:
                continue
            producer = SimProducer(self.client)
            await producer.initialise()
            value = f"{name}{expected.life}".encode()
            batches = [producer.batch((name, one), [(None, value)]) for one in range(count)]
            await asyncio.wait_for(producer.deliver(batches), 60)
            ends = await list_ends(self.client, {name: count}, committed=True)
            assert ends is not None
            seen, wrong = await read(self.client, ends)
            assert not wrong, wrong
            assert {one.value for one in seen} == {value}, "records of an earlier topic of this name"
            assert {one.partition for one in seen} == set(range(count))


def metadata(seed: int, *, power: bool, full: bool = False) -> str:
    """`full`: the broker finds its disk full again and again, and lives."""

    async def scenario(world: World) -> None:
        machine = world.machine(
            "node1",
            moldau_durability="group",
            moldau_metadata_snapshot_min_bytes=world.random.choice(("1024", "3000", "100000")),
        )
        await start_until_it_runs(world, machine, power=power)
        one = Administrator(world, machine.address, refused_min=int(full))
        while full and not one.work.done():
            await world.sleep_ms(world.random.random() * 20)
            machine.disk_fault = disk_full
            await world.sleep_ms(world.random.random() * 20)
            machine.disk_fault = lambda operation, path: None
        while not one.work.done():
            machine.die_after(world.random.randint(1, world.random.choice((40, 400))), power=power)
            await world.until(lambda: not machine.runs or one.work.done(), 600)
            if not machine.runs:
                await start_until_it_runs(world, machine, power=power)
            else:
                machine.die_after(None)
        one.work.result()
        await one.client.spawn(one.check())
        machine.power_cut() if power else machine.kill()
        await machine.start()
        await one.client.spawn(one.check())
        await machine.stop()
        await machine.start()
        await one.client.spawn(one.check())

    return simulate(scenario, seed)[1].digest()


@pytest.mark.seeds(6)
def test_a_full_disk_leaves_no_half_changes(seed: int) -> None:
    metadata(seed, power=False, full=True)


@pytest.mark.seeds(6)
@pytest.mark.parametrize("power", [False, True], ids=["kill -9", "power cut"])
def test_acknowledged_topics_and_settings_survive(power: bool, seed: int) -> None:
    metadata(seed, power=power)
