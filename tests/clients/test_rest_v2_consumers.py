"""Consumer instances of v2: reading, positions, commits, groups, formats, and their end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from rest_v2_client import V2, V2Client, V2Instance, b64, cluster, embedded
from rest_v3_client import rest_proxy

from moldau.services.rest.v2 import instances as instances_module

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    with cluster(request) as running:
        yield running


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[V2Client]:
    with pytest.MonkeyPatch.context() as patch, rest_proxy(address, id="p1") as url:
        patch.setattr(instances_module, "PATTERN_SECONDS", 0.1)
        yield V2Client(url)


def place(topic: str, partition: int = 0, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, **more}


def values(records: list[dict[str, Any]]) -> list[Any]:
    return [each["value"] for each in records]


def test_records_come_in_the_instances_format(client: V2Client):
    client.produce("/topics/formats", [{"key": "k", "value": {"a": 1}}, {"value": None}])
    expected = {
        "json": [("k", {"a": 1}), (None, None)],
        "binary": [(b64(b'"k"'), b64(b'{"a":1}')), (None, None)],
    }
    for format_name, pairs in expected.items():
        with V2Instance(client, f"formats-{format_name}", format_name) as instance:
            instance.subscribe("formats")
            records = instance.read_until(2)
            assert [(each["key"], each["value"]) for each in records] == pairs
            assert [set(each) for each in records] == [{"topic", "key", "value", "partition", "offset"}] * 2
            other = "binary" if format_name == "json" else "json"
            found = client.refused("GET", f"{instance.path}/records", headers={"Accept": embedded(other)})
            assert found[:2] == (406, 40601)
            for accepted in ("*/*", V2, "application/json"):
                assert (
                    client.ask(
                        "GET", f"{instance.path}/records?timeout=10", headers={"Accept": accepted}
                    ).json()
                    == []
                )


def test_headers_and_timestamps_come_for_who_asks(client: V2Client):
    header = {"name": "h", "value": b64(b"\x00")}
    client.produce("/topics/extras", [{"value": 1, "timestamp": 77, "headers": [header]}, {"value": 2}])
    with V2Instance(client, "extras") as instance:
        instance.assign(("extras", 0))
        first, second = instance.read_until(2, include="headers,timestamp")
        assert (first["timestamp"], first["headers"]) == (77, [header])
        assert second["timestamp"] > 77
        assert second["headers"] == []


def test_only_what_was_returned_is_committed(client: V2Client):
    client.produce("/topics/committed", [{"value": "x" * 100} for _ in range(10)])
    with V2Instance(client, "commits", **{"auto.commit.enable": "false"}) as instance:
        instance.subscribe("committed")
        read = instance.read_until(1, max_bytes=250)
        assert len(read) == 2
        assert instance.committed("committed") is None
        assert instance.post("offsets", status=200) == []
        assert instance.committed("committed") == 2
        instance.post("offsets", {"offsets": [place("committed", offset=6, metadata="note")]}, 200)
        assert client.get(
            f"{instance.path}/offsets", {"partitions": [place("committed"), place("none")]}
        ) == {"offsets": [place("committed", offset=7, metadata="note")]}
    with V2Instance(client, "commits") as instance:
        instance.subscribe("committed")
        assert [each["offset"] for each in instance.read_until(3)] == [7, 8, 9]


def test_auto_commit_counts_what_the_client_has_surely_had(client: V2Client, address: str):
    client.produce("/topics/auto", [{"value": n} for n in range(4)])
    with V2Instance(client, "autos") as instance:
        instance.assign(("auto", 0))
        assert len(instance.read_until(2, max_bytes=3)) == 2
    with V2Instance(client, "autos") as instance:
        assert instance.committed("auto") == 2, "the end of an instance commits what was returned"
        instance.assign(("auto", 0))
        assert values(instance.read_until(2)) == [2, 3]


def test_asking_for_the_head_of_a_read_takes_no_records(client: V2Client):
    client.produce("/topics/heads", [{"value": 1}])
    with V2Instance(client, "heads") as instance:
        instance.assign(("heads", 0))
        assert client.http.head(f"{instance.path}/records").status_code == 405
        assert values(instance.read_until(1)) == [1]


def test_large_records_come_whole_and_in_order(client: V2Client):
    client.produce("/topics/megabytes", [{"value": f"{n}" * 400_000} for n in range(8)])
    with V2Instance(client, "megabytes") as instance:
        instance.assign(("megabytes", 0))
        assert [each["value"][0] for each in instance.read_until(8)] == list("01234567")


def test_a_client_with_a_small_limit_goes_on_record_by_record(client: V2Client):
    client.produce("/topics/large", [{"value": "x" * 1000}, {"value": "y" * 1000}])
    with V2Instance(client, "small-limits") as instance:
        instance.assign(("large", 0))
        first, second = instance.read_until(1, max_bytes=10), instance.read_until(1, max_bytes=10)
        assert [len(first), len(second)] == [1, 1]
        assert first[0]["value"][0] + second[0]["value"][0] == "xy"


def test_a_seek_forgets_what_was_fetched_before(client: V2Client):
    client.produce("/topics/sought", [{"value": n} for n in range(20)])
    with V2Instance(client, "seeks") as instance:
        instance.assign(("sought", 0))
        assert values(instance.read_until(3, max_bytes=4)) == [0, 1, 2]
        instance.post("positions", {"offsets": [place("sought", offset=18)]})
        assert values(instance.read_until(2)) == [18, 19]
        instance.post("positions/beginning", {"partitions": [place("sought")]})
        assert values(instance.read_until(3, max_bytes=4)) == [0, 1, 2]
        instance.post("positions/end", {"partitions": [place("sought")]})
        client.produce("/topics/sought", [{"value": "new"}])
        assert values(instance.read_until(1)) == ["new"]


def test_partitions_that_stay_assigned_keep_their_place(client: V2Client):
    client.produce("/topics/stays", [{"value": n} for n in range(6)])
    client.produce("/topics/joins", [{"value": "j"}])
    with V2Instance(client, "assigns") as instance:
        instance.assign(("stays", 0))
        assert values(instance.read_until(3, max_bytes=4)) == [0, 1, 2]
        instance.assign(("stays", 0), ("joins", 0))
        assert client.get(f"{instance.path}/assignments") == {"partitions": [place("joins"), place("stays")]}
        assert sorted(map(str, values(instance.read_until(4)))) == ["3", "4", "5", "j"]
        assert client.get(f"{instance.path}/subscription") == {"topics": []}


def test_two_instances_share_a_group(client: V2Client, address: str):
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("shared", 2, 1)])["shared"].result(60)
    with V2Instance(client, "share") as first:
        first.subscribe("shared")
        client.produce("/topics/shared", [{"value": 0, "partition": n} for n in (0, 1)])
        assert len(first.read_until(2)) == 2
        first.post("offsets", status=200)
        with V2Instance(client, "share") as second:
            second.subscribe("shared")
            places: list[Any] = []
            while len(places) != 1:  # both follow the group although only one of them is read from
                second.read()
                places = client.get(f"{second.path}/assignments")["partitions"]
            mine = places[0]["partition"]
            client.produce("/topics/shared", [{"value": n, "partition": n} for n in (0, 1)])
            assert values(second.read_until(1)) == [mine]
            assert values(first.read_until(1)) == [1 - mine]


def test_a_pattern_finds_topics_that_come_later(client: V2Client):
    client.produce("/topics/pattern-a", [{"value": "a"}])
    client.produce("/topics/not-pattern-a", [{"value": "n"}])
    with V2Instance(client, "patterns") as instance:
        instance.post("subscription", {"topic_pattern": "pattern-.|__consumer.*"})
        assert client.get(f"{instance.path}/subscription") == {"topics": ["pattern-a"]}
        assert values(instance.read_until(1)) == ["a"]
        client.produce("/topics/pattern-b", [{"value": "b"}])
        assert values(instance.read_until(1)) == ["b"]
        assert client.get(f"{instance.path}/subscription") == {"topics": ["pattern-a", "pattern-b"]}
        instance.client.ask("DELETE", f"{instance.path}/subscription")
        assert client.get(f"{instance.path}/subscription") == {"topics": []}
        for wrong in ("(", "(?=a)b", "a" * 2000):
            body = {"topic_pattern": wrong}
            assert client.refused("POST", f"{instance.path}/subscription", body)[:2] == (422, 422)


def test_after_a_subscription_partitions_can_be_chosen(client: V2Client):
    """What the group gave is given up before the response: it does not take away what is chosen next."""
    client.produce("/topics/both-ways", [{"value": n} for n in range(3)])
    with V2Instance(client, "both-ways") as instance:
        instance.subscribe("both-ways")
        assert values(instance.read_until(1, max_bytes=1)) == [0]
        instance.client.ask("DELETE", f"{instance.path}/subscription")
        assert client.get(f"{instance.path}/assignments") == {"partitions": []}
        instance.assign(("both-ways", 0))
        instance.post("positions/beginning", {"partitions": [place("both-ways")]})
        assert values(instance.read_until(3)) == [0, 1, 2]
        instance.client.ask("DELETE", f"{instance.path}/subscription")
        instance.subscribe("both-ways")
        client.produce("/topics/both-ways", [{"value": 3}])
        assert values(instance.read_until(1))[-1] == 3


def test_what_an_instance_cannot_do_now(client: V2Client):
    client.produce("/topics/state", [{"value": 1}])
    with V2Instance(client, "states") as instance:
        found = client.refused("GET", f"{instance.path}/records")
        assert found[:2] == (409, 40903)
        assert found[2].startswith("Illegal state: Consumer is not subscribed")
        body = {"offsets": [place("state", offset=0)]}
        found = client.refused("POST", f"{instance.path}/positions", body)
        assert found == (409, 40903, "Illegal state: No current assignment for partition state-0")
        instance.subscribe("state")
        wanted: list[tuple[str, Any]] = [
            ("assignments", {"partitions": [place("state")]}),
            ("subscription", {"topic_pattern": "x"}),
        ]
        for path, body in wanted:
            found = client.refused("POST", f"{instance.path}/{path}", body)
            assert found[:2] == (409, 40903)
            assert "mutually exclusive" in found[2]


@pytest.mark.parametrize(
    ("config", "status", "code", "message"),
    [
        (
            {"format": "xml"},
            422,
            422,
            "Invalid format type. It is one of binary, json, avro, jsonschema, protobuf.",
        ),
        ({"auto.offset.reset": "soon"}, 422, 42204, "Invalid consumer configuration: Invalid value soon for"),
        ({"auto.commit.enable": "perhaps"}, 422, 42204, "Invalid consumer configuration"),
        ({"fetch.min.bytes": 10_000_001}, 422, 40001, "It does not abide by the constraints"),
        ({"fetch.min.bytes": "many"}, 422, 422, "fetch.min.bytes must be a whole number"),
        ({"name": 5}, 422, 422, "name must be text"),
        ({"name": "n" * 300}, 422, 422, "at most 255"),
        ({"maxWindowSize": "1"}, 422, 422, "Unrecognized field: maxWindowSize"),
    ],
)
def test_instances_that_cannot_be(
    client: V2Client, config: dict[str, Any], status: int, code: int, message: str
):
    found = client.refused("POST", "/consumers/wrong", config)
    assert found[:2] == (status, code)
    assert message in found[2]


def test_names_of_instances(client: V2Client):
    made = client.ask("POST", "/consumers/named").json()["instance_id"]
    assert made.startswith("rest-consumer-p1-")
    with V2Instance(client, "named", name="given"):
        assert client.refused("POST", "/consumers/named", {"name": "given"})[:2] == (409, 40902)
        with V2Instance(client, "other", name="given"):
            pass
    assert client.refused("GET", "/consumers/named/instances/given/records")[:2] == (404, 40403)
    assert client.refused("DELETE", "/consumers/named/instances/given")[:2] == (404, 40403)
    found = client.ask("POST", "/consumers/a%2Fb%20c", {"name": "d/e"}).json()
    assert found["base_uri"] == f"{client.url}/consumers/a%2Fb%20c/instances/d%2Fe"
    assert client.ask("DELETE", found["base_uri"].removeprefix(client.url)).status_code == 204
    assert client.ask("DELETE", f"/consumers/named/instances/{made}").status_code == 204


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "subscription", {"topics": "a"}),
        ("POST", "subscription", {"topics": [1]}),
        ("POST", "assignments", {"partitions": []}),
        ("POST", "assignments", {"partitions": [{"topic": "a"}]}),
        ("POST", "assignments", {"partitions": [{"topic": "", "partition": 0}]}),
        ("POST", "positions", {"offsets": [{"topic": "a", "partition": 0}]}),
        ("POST", "positions", {"offsets": [{"topic": "a", "partition": 0, "offset": -1}]}),
        ("POST", "positions/end", {}),
        ("POST", "offsets", {"offsets": [{"topic": "a", "partition": 0, "offset": 2**63}]}),
        ("GET", "offsets", {"partitions": [{"topic": "a", "partition": 2**40}]}),
        ("GET", "offsets", {"partition": []}),
    ],
)
def test_bodies_that_are_wrong(client: V2Client, method: str, path: str, body: Any):
    with V2Instance(client, "wrong-bodies") as instance:
        assert client.refused(method, f"{instance.path}/{path}", body)[:2] == (422, 422)


def test_a_record_that_is_not_of_the_format_stops_the_reader_until_it_seeks(client: V2Client):
    records = [{"value": b64(each)} for each in (b"1", b"2", b"{", b"3")]
    client.produce("/topics/poisoned", records, "binary")
    with V2Instance(client, "poison") as instance:
        instance.assign(("poisoned", 0))
        assert values(instance.read_until(2)) == [1, 2]
        for _ in range(2):
            found = client.refused("GET", f"{instance.path}/records")
            assert found[:2] == (500, 50002)
            assert "offset 2 of poisoned-0 cannot be read as json" in found[2]
            assert "Seek to offset 3" in found[2]
        instance.post("positions", {"offsets": [place("poisoned", offset=3)]})
        assert values(instance.read_until(1)) == [3]


def test_a_topic_that_comes_later_is_read_then(client: V2Client):
    with V2Instance(client, "early") as instance:
        instance.subscribe("comes-later")
        assert instance.read(timeout=10) == []
        client.produce("/topics/comes-later", [{"value": 1}])
        instance.subscribe("comes-later")
        assert values(instance.read_until(1)) == [1]


def test_no_reset_is_an_error_and_not_silence(client: V2Client):
    client.produce("/topics/no-reset", [{"value": 1}])
    with V2Instance(client, "no-resets", **{"auto.offset.reset": "none"}) as instance:
        instance.assign(("no-reset", 0))
        status, code = 200, 0
        while status == 200:
            response = client.ask("GET", f"{instance.path}/records")
            status, code = response.status_code, response.json()["error_code"] if response.is_error else 0
        assert (status, code) == (500, 50002)


def test_fetch_min_bytes_waits_for_more(client: V2Client):
    client.produce("/topics/waits", [{"value": "x" * 50}])
    with V2Instance(
        client, "min-bytes", **{"fetch.min.bytes": 10, "consumer.request.timeout.ms": 60_000}
    ) as one:
        one.assign(("waits", 0))
        assert len(one.read()) == 1  # ends long before its timeout
    with V2Instance(
        client, "min-bytes", **{"fetch.min.bytes": 1000, "consumer.request.timeout.ms": 5000}
    ) as one:
        one.assign(("waits", 0))
        one.post("positions/beginning", {"partitions": [place("waits")]})
        began = time.monotonic()
        assert len(one.read()) == 1
        assert time.monotonic() - began >= 4.9


def test_a_deleted_instance_leaves_its_group_at_once(client: V2Client, address: str):
    client.produce("/topics/leaves", [{"value": 1}])
    with V2Instance(client, "leave") as instance:
        instance.subscribe("leaves")
        assert len(instance.read_until(1)) == 1
    own = Consumer({"bootstrap.servers": address, "group.id": "leave", "auto.offset.reset": "earliest"})
    own.subscribe(["leaves"])
    while not own.assignment():
        own.poll(0.1)
    own.close()


@pytest.mark.parametrize("group", ["%00", "a%00b", "%20", "%0A", "%20a", "a%09"])
def test_names_of_groups_that_librdkafka_would_shorten_are_refused(client: V2Client, group: str):
    """It ends the process where nothing is left of a name."""
    assert client.refused("POST", f"/consumers/{group}", {})[:2] == (400, 40002)
    assert client.refused("GET", f"/consumers/{group}/instances/a/records")[:2] == (400, 40002)


def test_names_of_topics_with_nul_are_refused(client: V2Client):
    place = {"topic": "a\0b", "partition": 0}
    with V2Instance(client, "nul") as instance:
        for path, body in (
            ("subscription", {"topics": ["a\0b"]}),
            ("assignments", {"partitions": [place]}),
            ("positions", {"offsets": [{**place, "offset": 0}]}),
            ("offsets", {"offsets": [{**place, "offset": 0}]}),
        ):
            assert client.refused("POST", f"{instance.path}/{path}", body)[:2] == (422, 422)
    headers = {"Content-Type": embedded("json")}
    body = {"records": [{"value": 1}]}
    assert client.refused("POST", "/topics/a%00b", body, headers=headers)[:2] == (400, 40002)
    assert client.refused("POST", "/topics/a%00b/partitions/0", body, headers=headers)[:2] == (400, 40002)


def test_an_instance_that_is_not_read_gives_partitions_to_others(client: V2Client, address: str):
    """Also one for which records were taken from Kafka already, and wait for its next read."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("given", 2, 1)])["given"].result(60)
    for partition in range(2):
        client.produce(f"/topics/given/partitions/{partition}", [{"value": n} for n in range(50)])
    with V2Instance(client, "givers") as silent, V2Instance(client, "givers") as other:
        silent.subscribe("given")
        assert len(silent.read_until(1, max_bytes=1)) == 1
        other.subscribe("given")
        while len(client.get(f"{other.path}/assignments")["partitions"]) != 1:
            time.sleep(0.1)
        # Its partition may be the one of the record that the silent one has read, and committed.
        assert len(other.read_until(49)) in (49, 50)
