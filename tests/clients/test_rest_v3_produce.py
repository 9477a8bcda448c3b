"""Records through v3: one, many in a stream, a batch; clients that are slow, endless, wrong or gone."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, TopicPartition
from rest_v3_client import V3Client, check_object, rest_proxy

from moldau.testing import Broker

pytestmark = pytest.mark.client

BODY_BYTES_MAX = 1_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(auto_create_topics_enable="false") as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: Broker) -> Iterator[V3Client]:
    limits = {"moldau.http.body.bytes.max": str(BODY_BYTES_MAX), "moldau.rest.producing.bytes.max": "300000"}
    with rest_proxy(broker.bootstrap_servers, **limits) as url:
        yield V3Client(url)


def produce(client: V3Client, topic: str, content: Any, **options: Any) -> list[dict[str, Any]]:
    """The answers of a request, each held against the document."""
    response = client.ask("POST", f"/topics/{topic}/records", content=content, **options)
    assert response.status_code == 200, response.text
    answers = [json.loads(line) for line in response.text.splitlines()]
    for each in answers:
        check_object("ProduceResponse", each)
    return answers


def consume(broker: Broker, topic: str, count: int, partition: int = 0) -> list[Any]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "checks"}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Any] = []
        while len(found) < count:
            found += [each for each in consumer.consume(count - len(found), 1.0) if each.error() is None]
        return found
    finally:
        consumer.close()


def record(value: Any, **more: Any) -> bytes:
    return json.dumps({"value": {"type": "JSON", "data": value}, **more}).encode()


def test_every_field_of_a_record_arrives(broker: Broker, client: V3Client) -> None:
    client.create("fields", 2)
    body = {
        "partition_id": 1,
        "headers": [{"name": "a", "value": base64.b64encode(b"\xff\0").decode()}, {"name": "b"}],
        "key": {"type": "BINARY", "data": "Zm9v"},
        "value": {"type": "STRING", "data": "žluťoučký"},
        "timestamp": "2021-02-05T19:14:42.5Z",
    }
    (answer,) = produce(client, "fields", json.dumps(body).encode())
    assert answer == {
        "error_code": 200,
        "cluster_id": client.cluster_id,
        "topic_name": "fields",
        "partition_id": 1,
        "offset": 0,
        "timestamp": "2021-02-05T19:14:42.500Z",
        "key": {"type": "BINARY", "size": 3},
        "value": {"type": "STRING", "size": 13},
    }
    (found,) = consume(broker, "fields", 1, partition=1)
    assert (found.key(), found.value()) == (b"foo", "žluťoučký".encode())
    assert found.headers() == [("a", b"\xff\0"), ("b", None)]
    assert found.timestamp()[1] == 1_612_552_482_500


def test_nothing_and_null_are_tombstones(broker: Broker, client: V3Client) -> None:
    client.create("tombstones")
    bodies = [b"{}", b'{"value":null}', b'{"key":{"type":"JSON","data":null},"value":{"type":"BINARY"}}']
    answers = produce(client, "tombstones", b"".join(bodies))
    assert [each["error_code"] for each in answers] == [200] * 3
    assert [(each.key(), each.value()) for each in consume(broker, "tombstones", 3)] == [(None, None)] * 3


@pytest.mark.parametrize(
    ("body", "error_code"),
    [
        ({"partition_id": 9}, 40403),
        ({"partition_id": -1}, 40402),
        ({"partition_id": "zero"}, 400),
        ({"value": {"type": "XML", "data": "<a/>"}}, 400),
        ({"value": {"type": "BINARY", "data": "Zm9v!"}}, 400),
        ({"value": {"type": "STRING", "data": 1}}, 400),
        ({"value": {"type": "JSON", "schema_id": 1, "data": 1}}, 42206),
        ({"value": {"type": "AVRO", "data": 1}}, 42206),
        ({"value": {"schema_id": 1, "data": 1}}, 42206),  # there is no registry
        ({"value": "text"}, 400),
        ({"headers": {"a": "b"}}, 400),
        ({"headers": [{"value": "Zm9v"}]}, 400),
        ({"headers": [{"name": "a", "value": "!"}]}, 400),
        ({"headers": [{"name": "a\0b", "value": ""}]}, 400),
        ({"timestamp": "yesterday"}, 400),
        ({"timestamp": 17}, 400),
        ({"timestamp": "1970-01-01T00:00:00Z"}, 400),
        ({"timestamp": "1969-01-01T00:00:00Z"}, 400),
    ],
)
def test_a_wrong_record_is_answered_and_the_next_is_written(
    client: V3Client, body: dict[str, Any], error_code: int
) -> None:
    if client.http.get(client.base + "/topics/wrong").status_code == 404:
        client.create("wrong")
    answers = produce(client, "wrong", json.dumps(body).encode() + record(1))
    assert [each["error_code"] for each in answers] == [error_code, 200]


def test_integers_of_any_length_arrive_as_they_are(broker: Broker, client: V3Client) -> None:
    client.create("exact")
    integers = [2**64, -(2**63) - 1, 10**40]
    body = b"".join(record(each) for each in integers)
    assert [each["error_code"] for each in produce(client, "exact", body)] == [200] * 3
    entries = [
        {"id": str(index), "value": {"type": "JSON", "data": each}} for index, each in enumerate(integers)
    ]
    content = json.dumps({"entries": entries})  # httpx's json= writes the same
    assert client.ask("POST", "/topics/exact/records:batch", content=content).status_code == 207
    assert [each.value() for each in consume(broker, "exact", 6)] == [b"%d" % each for each in integers] * 2


def test_many_small_records_that_are_not_answered_hold_bounded_memory(client: V3Client) -> None:
    """What a record costs is counted, not only its bytes."""
    client.create("tiny")
    assert len(produce(client, "tiny", b"{}" * 20_000)) == 20_000


def test_a_topic_that_does_not_exist_is_told_for_each_record(client: V3Client) -> None:
    assert [each["error_code"] for each in produce(client, "nowhere", record(1) * 2)] == [40403, 40403]


def test_many_records_in_one_body_keep_their_order(broker: Broker, client: V3Client) -> None:
    """More than the proxy holds at a time, and than the body of another request may have."""
    client.create("many")
    count = 6_000
    texts = (record({"number": each, "text": "x" * 300}) for each in range(count))
    answers = produce(client, "many", gzip_stream(texts), headers={"Content-Encoding": "gzip"})
    assert [each["offset"] for each in answers] == list(range(count))
    values = [json.loads(each.value())["number"] for each in consume(broker, "many", count)]
    assert values == list(range(count))


def gzip_stream(texts: Iterator[bytes]) -> Iterator[bytes]:
    yield gzip.compress(b"".join(texts))


class RawStream:
    """A request of chunks that stays open, written and read by hand."""

    def __init__(self, client: V3Client, topic: str, receive_bytes: int | None = None) -> None:
        place = urlsplit(client.url)
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(90)
        self.socket.connect((place.hostname, place.port))
        head = (
            f"POST {client.base}/topics/{topic}/records HTTP/1.1\r\nHost: localhost\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        self.socket.sendall(head.encode())
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> RawStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self.socket.sendall(b"0\r\n\r\n")

    def status(self) -> int:
        status = int(self.file.readline().split()[1])
        while self.file.readline() not in (b"\r\n", b""):
            pass
        return status

    def chunk(self) -> bytes:
        """The next chunk of the response; empty at its end."""
        size = int(self.file.readline(), 16)
        data = self.file.read(size)
        self.file.readline()
        return data


def test_a_record_is_answered_while_the_request_still_comes(client: V3Client) -> None:
    client.create("turns")
    with RawStream(client, "turns") as stream:
        for each in range(3):
            text = record(each)
            stream.send(text[:10])
            stream.send(text[10:])
            if not each:
                assert stream.status() == 200
            assert json.loads(stream.chunk())["offset"] == each
        stream.send(b'{"value": nonsense}')
        assert json.loads(stream.chunk())["error_code"] == 400  # a record that is no JSON; the next may be
        stream.send(record(3))
        assert json.loads(stream.chunk())["offset"] == 3
        stream.send(b"nonsense")
        assert json.loads(stream.chunk())["error_code"] == 400  # nobody knows where a record begins
        assert stream.chunk() == b""


def test_a_record_without_end_is_refused_at_the_limit(client: V3Client) -> None:
    client.create("endless")
    with RawStream(client, "endless") as stream:
        stream.send(record(1))
        stream.send(b'{"value":{"type":"STRING","data":"')
        assert stream.status() == 200
        assert json.loads(stream.chunk())["offset"] == 0
        for _ in range(BODY_BYTES_MAX // 50_000 + 1):
            stream.send(b"x" * 50_000)
        assert json.loads(stream.chunk())["error_code"] == 413


def test_a_bomb_is_refused_as_what_it_unpacks_to(client: V3Client) -> None:
    client.create("bombed")
    bomb = gzip.compress(b'{"value":{"type":"STRING","data":"' + b"x" * 50_000_000)
    headers = {"Content-Encoding": "gzip"}
    assert client.refused("POST", "/topics/bombed/records", content=bomb, headers=headers) == 413
    deep = gzip.compress(b'{"value":' * 1_000_000)
    assert client.refused("POST", "/topics/bombed/records", content=deep, headers=headers) == 400


def test_a_client_that_does_not_read_is_not_read_from(client: V3Client) -> None:
    client.create("deaf")
    sent_bytes = 0
    with RawStream(client, "deaf", receive_bytes=4096) as stream:
        stream.socket.settimeout(2.0)
        many = record("x") * 500
        try:
            while sent_bytes < 200_000_000:
                stream.send(many)
                sent_bytes += len(many)
        except TimeoutError:
            pass
        assert sent_bytes < 200_000_000
        held = metric(client, "moldau_rest_bodies_held_bytes")
        assert held < 4_000_000


def metric(client: V3Client, name: str) -> float:
    lines = client.http.get("/metrics").text.splitlines()
    (line,) = [each for each in lines if each.startswith(name + " ")]
    return float(line.split()[1])


def test_a_client_that_goes_in_the_middle_leaves_nothing_behind(client: V3Client) -> None:
    client.create("gone")
    with RawStream(client, "gone") as stream:
        stream.send(record(1) + b'{"value":')
        assert stream.status() == 200
        stream.chunk()
    while metric(client, "moldau_rest_requests_running") > 1:
        time.sleep(0.02)
    assert metric(client, "moldau_rest_bodies_held_bytes") == 0
    assert produce(client, "gone", record(2))[0]["offset"] == 1


def test_a_batch_tells_of_each_record(broker: Broker, client: V3Client) -> None:
    client.create("batch")
    entries = [
        {"id": "1", "value": {"type": "JSON", "data": 1}},
        {"id": "two", "partition_id": 7},
        {"id": "3_c-D", "key": {"type": "BINARY", "data": "!"}},
        {"id": "4", "key": {"type": "STRING", "data": "k"}, "value": {"type": "JSON", "data": 2}},
    ]
    response = client.ask("POST", "/topics/batch/records:batch", json={"entries": entries})
    assert response.status_code == 207
    told = response.json()
    assert [(each["id"], each["offset"]) for each in told["successes"]] == [("1", 0), ("4", 1)]
    assert [(each["id"], each["error_code"]) for each in told["failures"]] == [("two", 40403), ("3_c-D", 400)]
    assert [each.value() for each in consume(broker, "batch", 2)] == [b"1", b"2"]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"value": {"type": "JSON", "data": 1}}],
        [{"id": 1}],
        [{"id": "a b"}],
        [{"id": "a" * 81}],
        [{"id": "a"}, {"id": "a"}],
        [{"id": str(each)} for each in range(1001)],
    ],
)
def test_a_batch_without_good_ids_writes_nothing(client: V3Client, entries: list[dict[str, Any]]) -> None:
    if client.http.get(client.base + "/topics/refused").status_code == 404:
        client.create("refused")
    assert client.refused("POST", "/topics/refused/records:batch", json={"entries": entries}) == 42208
    assert client.get("/topics/refused/partitions/0/offset")["latest_offset"] == 0
