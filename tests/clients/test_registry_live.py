"""The registry's service on a real broker: several instances, a deposed one, records of other registries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from moldau.client.cluster import GROUP, Cluster
from moldau.common.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.services.registry.election.identity import Identity, parse_identity
from moldau.services.registry.problems import Code, NotPrimary, RegistryProblem
from moldau.services.registry.service import RegistryService
from moldau.services.registry.settings import parse_registry_settings

WAIT_SECONDS = 100.0
Start = Callable[..., RegistryService]


def schema(name: object) -> dict[str, str]:
    return {"schema": f'{{"type":"record","name":"r{name}","fields":[]}}'}


def wait_until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def start(bootstrap: str, topic: str, group: str) -> Iterator[Start]:
    """Starts instances on one topic and in one group; `names` are settings with underscores."""
    services: list[RegistryService] = []

    def begin(port: int, *, wait: bool = True, read_only: bool = False, **named: str) -> RegistryService:
        texts = {name.replace("_", "."): text for name, text in named.items()}
        parsed = parse_registry_settings(
            {
                "kafkastore.bootstrap.servers": bootstrap,
                "kafkastore.topic": topic,
                "schema.registry.group.id": group,
                **texts,
            }
        )
        service = RegistryService(
            parsed.settings,
            parsed.client,
            Identity("127.0.0.1", port, parsed.settings.leader_eligibility),
            read_only=read_only,
            session_timeout_ms=6_000,
        )
        services.append(service)
        service.instance.start()
        if wait:
            wait_until(lambda: service.instance.is_ready)
        return service

    yield begin
    for service in services:
        service.instance.close()


def write(services: list[RegistryService], call: Callable[[RegistryService], Any]) -> Any:
    """As a client behind a load balancer: any instance, which forwards to the one that it names."""
    by_url = {service.identity.url: service for service in services}
    service = services[0]
    while True:
        try:
            return call(service)
        except NotPrimary as elsewhere:
            service = by_url[elsewhere.url]


def test_instances_elect_one_that_writes_and_all_read(start: Start) -> None:
    services = [start(port) for port in (8103, 8102, 8101)]
    wait_until(lambda: len({service.instance.primary_url for service in services}) == 1)
    wait_until(lambda: sum(service.instance.is_primary for service in services) == 1)
    write(services, lambda one: one.set_config("s", {"compatibility": "NONE"}))
    for number in range(6):
        answer = write([services[number % 3], *services], lambda one, n=number: one.register("s", schema(n)))
        assert (answer["version"], answer["id"]) == (number + 1, number + 1)
        for service in services:
            service.instance.catch_up()
            assert service.version("s", "latest")["id"] == answer["id"]
    other = next(service for service in services if not service.instance.is_primary)
    with pytest.raises(NotPrimary) as refused:
        other.set_config("s", {"compatibility": "NONE"})
    assert refused.value.url == next(each.identity.url for each in services if each.instance.is_primary)
    # What is registered already needs no primary.
    assert other.register("s", schema(0))["id"] == 1


def test_an_instance_that_misses_something_catches_up(start: Start) -> None:
    services = [start(8101), start(8102)]
    write(services, lambda one: one.register("first", schema("first")))
    wait_until(lambda: sum(service.instance.is_primary for service in services) == 1)
    primary, other = sorted(services, key=lambda service: not service.instance.is_primary)
    assert primary.instance.catch_up_after_miss() is False
    with ThreadPoolExecutor(8) as pool:
        for number in range(8):
            schema_id = primary.register("s" + str(number), {"schema": f'"{_PRIMITIVES[number]}"'})["id"]
            # Many clients at once see at the other instance what was just acknowledged at this one.
            asked = [pool.submit(_by_id_after_miss, other, schema_id) for _ in range(8)]
            assert all(each.result(WAIT_SECONDS)["schema"] for each in asked)


_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def _by_id_after_miss(service: RegistryService, schema_id: int) -> Any:
    try:
        return service.schema_by_id(schema_id)
    except RegistryProblem:
        assert service.instance.catch_up_after_miss()
        return service.schema_by_id(schema_id)


def test_another_instance_takes_over_and_ids_go_on(start: Start) -> None:
    first, second = start(8101), start(8102)
    one = write([first, second], lambda service: service.register("a", schema(1)))
    primary, other = (first, second) if first.instance.is_primary else (second, first)
    primary.instance.close()
    two = wait_until(lambda: _register(other, "b", schema(2)))
    assert (one["id"], two["id"]) == (1, 2)
    assert other.register("c", schema(1))["id"] == 1


def _register(service: RegistryService, subject: str, request: dict[str, str]) -> Any:
    try:
        return service.register(subject, request)
    except NotPrimary:
        return None


def test_a_deposed_primary_writes_nothing_and_learns_of_it(start: Start, group: str) -> None:
    """Two that both believe to be primary: the later one has opened the transactional id."""
    old = start(8101)
    assert old.register("a", schema("old"))["id"] == 1
    # The group's transactional id is taken over, as by an instance that this one does not see.
    usurper = Producer(
        {
            "bootstrap.servers": ",".join(old.settings.kafkastore_bootstrap_servers),
            "transactional.id": f"{group}-{old.settings.kafkastore_topic}",
        }
    )
    usurper.init_transactions(30)
    usurper.begin_transaction()
    key = b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}'
    value = {"subject": "b", "version": 1, "id": 2, "schema": '"long"', "deleted": False}
    usurper.produce(old.settings.kafkastore_topic, json.dumps(value).encode(), key)
    usurper.commit_transaction(30)
    # It decided from a state without that record; it must see it before it writes.
    answer = old.register("c", schema("new"))
    assert answer["id"] > 2
    assert old.version("b", "1")["schema"] == '"long"'


def test_an_aborted_registration_is_not_there_and_its_id_is_not_given(start: Start, bootstrap: str) -> None:
    service = start(8101)
    service.register("a", schema(1))
    stranger = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{time.monotonic_ns()}"})
    stranger.init_transactions(30)
    stranger.begin_transaction()
    key = b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}'
    value = {"subject": "b", "version": 1, "id": 9, "schema": '"long"', "deleted": False}
    stranger.produce(service.settings.kafkastore_topic, json.dumps(value).encode(), key)
    stranger.flush(30)
    stranger.abort_transaction(30)
    service.instance.catch_up()
    assert service.subjects() == ["a"]
    assert service.register("c", schema(2))["id"] == 10


def test_records_of_other_registries_are_read(start: Start, bootstrap: str) -> None:
    service = start(8101)
    topic = service.settings.kafkastore_topic
    records: list[tuple[str, str | None]] = [
        ('{"keytype":"NOOP","magic":0}', None),
        (
            '{"subject":"k","version":1,"magic":1,"keytype":"SCHEMA"}',
            '{"subject":"k","version":1,"id":5,"deleted":false,"schema":"\\"string\\""}',
        ),
        ('{"keytype":"EXPORTER","name":"e","magic":0}', "{}"),
        ('{"keytype":"SCHEMA","subject":"n","version":1,"magic":1}', '{"id":7}'),
        ("no json", "{}"),
        ('{"subject":null,"magic":0,"keytype":"CONFIG"}', '{"compatibilityLevel":"FULL"}'),
    ]
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key)
    producer.flush(30)
    service.instance.catch_up()
    assert service.version("k", "1")["id"] == 5
    assert service.config() == {"compatibilityLevel": "FULL"}
    assert service.register("m", schema(1))["id"] == 6
    # What was spelled in another way is deleted with its own spelling, so that compaction finds it.
    service.delete_version("k", "1")
    service.delete_version("k", "1", permanent=True)
    assert service.subjects(deleted=True) == ["m"]


def test_many_at_once_get_ids_of_their_own_and_equal_schemas_one(start: Start) -> None:
    service = start(8101)
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda n: service.register(f"s{n}", schema(n // 2)), range(120)))
    ids = [answer["id"] for answer in answers]
    assert len(set(ids)) == 60
    assert all(ids[number] == ids[number + 1] for number in range(0, 120, 2))
    with ThreadPoolExecutor(12) as pool:
        service.set_config("one", {"compatibility": "NONE"})
        versions = list(pool.map(lambda n: service.register("one", schema(f"v{n}"))["version"], range(30)))
    assert sorted(versions) == list(range(1, 31))


def test_a_read_only_instance_joins_no_election(start: Start) -> None:
    writer = start(8101)
    writer.register("a", schema(1))
    reader = start(8102, read_only=True)
    assert reader.version("a", "1")["id"] == 1
    assert reader.instance.primary_url is None
    with pytest.raises(RegistryProblem, match="read-only"):
        reader.register("b", schema(2))


def test_an_instance_that_may_not_write_is_not_elected(start: Start) -> None:
    service = start(8101, leader_eligibility="false", kafkastore_timeout_ms="1000")
    with pytest.raises(RegistryProblem) as refused:
        service.register("a", schema(1))
    assert refused.value.error_code == Code.NO_PRIMARY


def test_a_schema_that_the_topic_does_not_take_is_refused_alone(start: Start) -> None:
    service = start(8101)
    large = {"schema": json.dumps({"type": "record", "name": "r", "fields": [], "doc": "x" * 1_100_000})}
    with ThreadPoolExecutor(2) as pool:
        refused = pool.submit(service.register, "large", large)
        taken = pool.submit(service.register, "small", schema(1))
        assert taken.result(WAIT_SECONDS)["id"] >= 1
        with pytest.raises(RegistryProblem) as caught:
            refused.result(WAIT_SECONDS)
    assert caught.value.error_code == Code.SCHEMA_TOO_LARGE


def test_members_are_known_to_kafkas_tools_as_confluents(start: Start, bootstrap: str, group: str) -> None:
    start(8101)
    with Cluster(bootstrap) as cluster:
        answer = cluster.coordinator(group, GROUP).ask(DescribeGroupsRequest(groups=[group]))
    described = answer.groups[0]
    assert (described.protocol_type, described.protocol_data) == ("sr", "v0")
    assert parse_identity(described.members[0].member_metadata).url == "http://127.0.0.1:8101"


@pytest.mark.parametrize(
    ("partitions", "policy", "words"),
    [(2, "compact", "only 1 partition"), (1, "delete", "cleanup.policy must be compact")],
)
def test_a_topic_that_could_lose_schemas_is_refused(
    start: Start, bootstrap: str, topic: str, partitions: int, policy: str, words: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = NewTopic(topic, partitions, config={"cleanup.policy": policy})
    admin.create_topics([wanted])[topic].result(60)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    wait_until(lambda: admin.describe_configs([resource])[resource].result(60))
    with pytest.raises(RegistryProblem, match=words):
        start(8101)


def test_brokers_that_are_not_there_are_a_sentence(start: Start) -> None:
    with pytest.raises(RegistryProblem, match="cannot be used: cannot prepare topic"):
        start(8101, kafkastore_bootstrap_servers="127.0.0.1:1", kafkastore_init_timeout_ms="300")
