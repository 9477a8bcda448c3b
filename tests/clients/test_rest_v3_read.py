"""Reading without a session: pages, and the live tail as server-sent events."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from confluent_kafka import Producer
from rest_v2_client import V2Client, V2Instance
from rest_v3_client import TIMEOUT_SECONDS, V3Client, check_object, rest_proxy

from moldau.client.cluster import Cluster
from moldau.common.protocol.messages import produce
from moldau.common.records.batch import seal
from moldau.common.records.builder import build_batch
from moldau.common.records.record import Record
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3 import read_records as read_records_module
from moldau.testing import Broker

pytestmark = pytest.mark.client

EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[V3Client]:
    with rest_proxy(broker.bootstrap_servers) as url:
        yield V3Client(url)


@pytest.fixture(scope="module")
def producer(broker: Broker) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})


def write(producer: Producer, topic: str, values: Any, partition: int = 0, **more: Any) -> None:
    for each in values:
        producer.produce(topic, str(each), partition=partition, **more)
    producer.flush()


class Tail:
    """The events of a live tail, read one by one."""

    def __init__(
        self, client: V3Client, topic: str, headers: dict[str, str] | None = None, **query: Any
    ) -> None:
        self._stream = client.http.stream(
            "GET",
            f"{client.base}/topics/{topic}/records",
            params=query,
            headers={**EVENTS, **(headers or {})},
            timeout=TIMEOUT_SECONDS,
        )

    def __enter__(self) -> Tail:
        response = self._stream.__enter__()
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines = response.iter_lines()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stream.__exit__(*exception)

    def event(self) -> dict[str, str] | None:
        """The next event with its fields; None at the end."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line and not line.startswith(":"):
                name, _, text = line.partition(": ")
                fields[name] = text
            elif "data" in fields:
                return fields
        return None

    def values(self, count: int) -> list[Any]:
        """The values of the next records."""
        found = []
        for _ in range(count):
            event = self.event()
            assert event is not None
            data = json.loads(event["data"])
            check_object("Record", data)
            found.append(data["value"]["data"])
        return found


def test_a_page_shows_every_field(client: V3Client, producer: Producer) -> None:
    client.create("shown")
    producer.produce(
        "shown", b"\xff", "klíč".encode(), headers=[("h", b"\0"), ("n", None)], timestamp=1_612_552_482_007
    )
    producer.produce("shown", None, "k2")
    producer.flush()
    (first, second) = client.get("/topics/shown/records", params={"key_format": "string"})["data"]
    assert first == {
        "partition_id": 0,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42.007Z",
        "timestamp_type": "CREATE_TIME",
        "headers": [{"name": "h", "value": "AA=="}, {"name": "n", "value": None}],
        "key": {"type": "STRING", "data": "klíč"},
        "value": {"type": "BINARY", "data": "/w=="},
    }
    assert second["value"] is None


def test_pages_follow_each_other_to_the_end_and_go_on_there(client: V3Client, producer: Producer) -> None:
    client.create("paged", 3)
    for partition in range(3):
        write(producer, "paged", range(10), partition)
    url = f"{client.url}{client.base}/topics/paged/records?limit=7&value_format=json"
    found: list[tuple[int, int]] = []
    sizes = []
    while True:
        page = client.http.get(url).json()
        check_object("RecordList", page)
        found += [(each["partition_id"], each["offset"]) for each in page["data"]]
        sizes.append(len(page["data"]))
        url = page["metadata"]["next"]
        if not page["data"]:
            break
    assert sizes == [7, 7, 7, 7, 2, 0]
    assert sorted(found) == [(partition, offset) for partition in range(3) for offset in range(10)]
    write(producer, "paged", ["99"], 1)
    (new,) = client.http.get(url).json()["data"]
    assert (new["partition_id"], new["offset"], new["value"]["data"]) == (1, 10, 99)


def test_where_a_page_begins(client: V3Client, producer: Producer) -> None:
    client.create("begins", 2)
    for each in range(4):
        write(producer, "begins", [each], timestamp=1_700_000_000_000 + each * 1000)

    def values(**query: Any) -> list[str]:
        page = client.get("/topics/begins/records", params={"value_format": "string", **query})
        return [each["value"]["data"] for each in page["data"]]

    assert values() == values(**{"from": "beginning"}) == ["0", "1", "2", "3"]
    assert values(**{"from": "end"}) == []
    assert values(**{"from": "0:2,1:0"}) == ["2", "3"]
    assert values(**{"from": "3", "partition": "0"}) == ["3"]
    assert values(**{"from": "2023-11-14T22:13:22Z"}) == ["2", "3"]
    assert values(**{"from": "2033-01-01T00:00:00Z"}) == []
    assert values(**{"from": "0:99"}) == []
    assert values(partition="1") == []


@pytest.mark.parametrize(
    ("query", "error_code"),
    [
        ({"from": "yesterday"}, 400),
        ({"from": "7"}, 400),
        ({"from": "0:"}, 400),
        ({"partition": "7"}, 40402),
        ({"partition": "x"}, 400),
        ({"limit": "0"}, 400),
        ({"limit": "1000000"}, 400),
        ({"timeout": "-1"}, 400),
        ({"key_format": "xml"}, 400),
        ({"value_format": "avro"}, 42206),
    ],
)
def test_what_cannot_be_read(client: V3Client, query: dict[str, str], error_code: int) -> None:
    if client.http.get(client.base + "/topics/unread").status_code == 404:
        client.create("unread", 2)
    assert client.refused("GET", "/topics/unread/records", params=query) == error_code
    assert client.refused("GET", "/topics/unread/records", params=query, headers=EVENTS) == error_code


def test_a_topic_that_does_not_exist_is_not_made_by_reading(client: V3Client) -> None:
    assert client.refused("GET", "/topics/unmade/records") == 40403
    assert client.refused("GET", "/topics/unmade/records", headers=EVENTS) == 40403
    assert client.refused("GET", "/topics/unmade") == 40403


def test_a_record_of_another_format_is_shown_as_it_is(client: V3Client, producer: Producer) -> None:
    client.create("odd")
    write(producer, "odd", ['{"a":1}', "no json"])
    good, bad = client.get("/topics/odd/records", params={"value_format": "json"})["data"]
    assert good["value"] == {"type": "JSON", "data": {"a": 1}}
    assert bad["value"]["type"] == "BINARY"
    assert base64.b64decode(bad["value"]["data"]) == b"no json"
    assert "JSON" in bad["value"]["error"]


def test_json_of_many_lines_is_one_event(client: V3Client, producer: Producer) -> None:
    client.create("lines")
    write(producer, "lines", ['{\n\n"a":\r\n1}', '{\r"a": "\\n"\r\r}', '"event: error"'])
    with Tail(client, "lines", **{"from": "beginning", "value_format": "json"}) as tail:
        assert tail.values(3) == [{"a": 1}, {"a": "\n"}, "event: error"]
    page = client.get("/topics/lines/records", params={"value_format": "json"})
    assert [each["value"]["data"] for each in page["data"]] == [{"a": 1}, {"a": "\n"}, "event: error"]


def test_a_tail_outlives_a_broker_that_is_away_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_records_module, "_LOOK_SECONDS", 0.0)
    with Broker(process=True) as broker, rest_proxy(broker.bootstrap_servers) as url:
        client = V3Client(url)
        client.create("outlived")
        asked: list[int] = []
        find_topic = read_records_module.find_topic

        async def watched(call: Any, **more: Any) -> Any:
            try:
                return await find_topic(call, **more)
            except HttpProblem as problem:
                asked.append(problem.error_code)
                raise

        monkeypatch.setattr(read_records_module, "find_topic", watched)
        monkeypatch.setattr("moldau.services.kafka.admin_threads.PATIENCE_MS", 500)
        with Tail(client, "outlived", value_format="string") as tail:
            broker.kill()
            while not asked:
                time.sleep(0.05)
            broker.restart()
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
            write(producer, "outlived", ["after"])
            assert tail.values(1) == ["after"]


def test_headers_whose_names_are_no_text_do_not_stop_a_reader(broker: Broker, client: V3Client) -> None:
    client.create("named-oddly")
    record = Record(0, 1_700_000_000_000, None, b"1", [("a", b"w"), ("XX", b"v")])
    batch = bytearray(build_batch([record]).replace(b"XX", b"\xff\xfe"))
    seal(batch)
    partition = produce.PartitionProduceData(index=0, records=bytes(batch))
    topic = produce.TopicProduceData(name="named-oddly", partition_data=[partition])
    request = produce.ProduceRequest(transactional_id=None, acks=-1, timeout_ms=60_000, topic_data=[topic])
    cluster = Cluster(broker.bootstrap_servers, {})
    cluster.any_broker().ask(request, at_most=12)
    cluster.close()
    (found,) = client.get("/topics/named-oddly/records", params={"value_format": "json"})["data"]
    headers = [{"name": "a", "value": "dw=="}, {"name": "\ufffd", "value": "dg=="}]
    assert (found["value"]["data"], found["headers"]) == (1, headers)
    v2 = V2Client(client.url)
    with V2Instance(v2, "named-oddly") as instance:
        instance.assign(("named-oddly", 0))
        (found,) = instance.read_until(1, include="headers")
    assert (found["value"], found["headers"]) == (1, headers)


def test_aborted_records_are_not_shown_and_the_page_ends(broker: Broker, client: V3Client) -> None:
    client.create("aborted")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "reading"}
    writer = Producer(settings)
    writer.init_transactions()
    for end in (writer.commit_transaction, writer.abort_transaction, writer.commit_transaction):
        writer.begin_transaction()
        writer.produce("aborted", end.__name__)
        end()
    page = client.get("/topics/aborted/records", params={"value_format": "string"})
    assert [each["value"]["data"] for each in page["data"]] == ["commit_transaction"] * 2
    assert client.http.get(page["metadata"]["next"]).json()["data"] == []


def test_a_page_waits_for_its_first_record(client: V3Client, producer: Producer) -> None:
    client.create("awaited")
    with httpx.Client(timeout=TIMEOUT_SECONDS) as other:
        request = other.build_request(
            "GET", f"{client.url}{client.base}/topics/awaited/records", params={"timeout": 30_000}
        )
        waiting = threading.Thread(target=write, args=(producer, "awaited", ["here"]))
        waiting.start()
        (found,) = other.send(request).json()["data"]
        waiting.join()
    assert base64.b64decode(found["value"]["data"]) == b"here"


def test_a_tail_shows_what_was_there_and_what_comes(client: V3Client, producer: Producer) -> None:
    client.create("tailed")
    write(producer, "tailed", range(3))
    with Tail(client, "tailed", **{"from": "beginning", "value_format": "json"}) as tail:
        assert tail.values(3) == [0, 1, 2]
        write(producer, "tailed", range(3, 6))
        assert tail.values(3) == [3, 4, 5]


def test_a_tail_has_its_turn_in_the_smallest_of_budgets(
    broker: Broker, client: V3Client, producer: Producer
) -> None:
    """Its buffers alone are more than the budget for responses, and so is each of its records."""
    client.create("scarce-tail")
    write(producer, "scarce-tail", ["x" * 10_000] * 200)
    with rest_proxy(broker.bootstrap_servers, moldau_rest_responses_bytes_max="20000") as url:
        other = V3Client(url)
        query = {"from": "beginning", "value_format": "string"}
        with Tail(other, "scarce-tail", **query) as tail:
            assert tail.values(200) == ["x" * 10_000] * 200
            assert other.refused("GET", "/topics/scarce-tail/records") == 429


def test_a_tail_begins_at_the_end_where_nothing_is_said(client: V3Client, producer: Producer) -> None:
    client.create("new")
    write(producer, "new", ["old"])
    with Tail(client, "new", limit=1, value_format="string") as tail:
        write(producer, "new", ["new"])
        assert tail.values(1) == ["new"]
        assert tail.event() is None


def test_a_tail_goes_on_after_the_last_event(client: V3Client, producer: Producer) -> None:
    client.create("resumed", 2)
    for partition in range(2):
        write(producer, "resumed", range(partition * 100, partition * 100 + 20), partition)
    seen: list[int] = []
    last: dict[str, str] = {}
    while len(seen) < 40:
        with Tail(client, "resumed", last, limit=7, **{"from": "beginning", "value_format": "json"}) as tail:
            while (event := tail.event()) is not None:
                seen.append(json.loads(event["data"])["value"]["data"])
                last = {"Last-Event-ID": event["id"]}
                if len(seen) % 5 == 0:
                    break  # in the middle of what was sent
    assert sorted(seen) == [*range(20), *range(100, 120)]
    assert client.refused("GET", "/topics/resumed/records", headers={**EVENTS, "Last-Event-ID": "x"}) == 400


def test_a_tail_and_pages_of_very_many_partitions_go_on(client: V3Client, producer: Producer) -> None:
    """The positions are packed: as pairs those of 1,300 are longer than the head of a request may be."""
    client.create("wide", 150)
    for partition in range(0, 150, 15):
        write(producer, "wide", [partition, partition + 1], partition)
    wanted = sorted(each for partition in range(0, 150, 15) for each in (partition, partition + 1))
    seen: list[int] = []
    last: dict[str, str] = {}
    while len(seen) < len(wanted):
        ended = {}
        with Tail(client, "wide", last, limit=5, **{"from": "beginning", "value_format": "json"}) as tail:
            while (event := tail.event()) is not None:
                seen.append(json.loads(event["data"])["value"]["data"])
                ended = {"Last-Event-ID": event["id"]} if "id" in event else ended
        assert ended["Last-Event-ID"].startswith("~")
        last = ended
    assert sorted(seen) == wanted

    paged: list[int] = []
    url = f"{client.base}/topics/wide/records?value_format=json&limit=9"
    while len(paged) < len(wanted):
        found = client.http.get(url).json()
        paged += [each["value"]["data"] for each in found["data"]]
        url = found["metadata"]["next"]
    assert sorted(paged) == wanted


def test_a_tail_ends_when_its_topic_does(client: V3Client) -> None:
    client.create("ending")
    with Tail(client, "ending", value_format="json") as tail:
        client.ask("DELETE", "/topics/ending")
        event = tail.event()
    assert event is not None
    assert event["event"] == "error"
    assert json.loads(event["data"])["error_code"] == 40403


def test_tails_of_clients_that_have_gone_end(client: V3Client, producer: Producer) -> None:
    client.create("left")
    for _ in range(3):
        with Tail(client, "left", **{"from": "beginning"}):
            pass
    while metric(client, "moldau_rest_readers"):
        time.sleep(0.02)


def test_a_client_that_does_not_read_its_tail_costs_little(client: V3Client, producer: Producer) -> None:
    client.create("unheard")
    write(producer, "unheard", ["x" * 10_000] * 5_000)
    place = urlsplit(client.url)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect((place.hostname, place.port))
        path = f"{client.base}/topics/unheard/records?from=beginning"
        deaf.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
        assert deaf.recv(100)
        while metric(client, "moldau_rest_readers") != 1:  # those of other tests are closed meanwhile
            time.sleep(0.02)
        # The others are served meanwhile.
        assert len(client.get("/topics/unheard/records", params={"limit": 5})["data"]) == 5


def metric(client: V3Client, name: str) -> float:
    lines = client.http.get("/metrics").text.splitlines()
    (line,) = [each for each in lines if each.startswith(name + " ")]
    return float(line.split()[1])
