"""Bad input costs at most the connection it came on.

Each test breaks one rule of the protocol against a live broker; afterwards the broker must still serve an
ordinary client, must not have grown, and must not have written a byte of what it refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import resource
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import crc32c
import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import Message, eventually
from conftest import KIND, start_broker
from every_version_requests import World, requests_of_all, world
from raw_client import API_VERSIONS, Disconnected, RawClient, parse_response, request_frame

from bench.brokers import BrokerProcess

__all__ = ["world"]

PRODUCE = 0
METADATA = 3
FETCH = 1
CORRUPT_MESSAGE = 2
INVALID_RECORD = 87
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for this module alone: its folder and its memory are looked at."""
    started = start_broker(tmp_path_factory.mktemp("bad-input"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def bootstrap(broker: BrokerProcess) -> str:
    return broker.address


@pytest.fixture(autouse=True)
def _still_serves(broker: BrokerProcess, world: World) -> Iterator[None]:
    """After every test the same process serves an ordinary client, and the log of `world` is as it was."""
    before = digest(broker, world.topic)
    pid = broker.pid
    yield
    assert broker.process is not None
    assert broker.process.poll() is None, broker.output.read_text()[-3000:]
    assert broker.pid == pid
    assert digest(broker, world.topic) == before, "refused input changed the log"
    topic = f"after-{os.urandom(4).hex()}"
    client = ConfluentClient(broker.address)
    create_topic(broker.address, topic)
    client.produce(topic, [Message(b"k", b"v")])
    assert [one.value for one in client.read({topic: 1})[topic]] == [b"v"]


def digest(broker: BrokerProcess, topic: str) -> str:
    """A fingerprint of the partition's log file."""
    (log,) = Path(broker.log_dir()).rglob(f"{topic}-0/00000000000000000000.log")
    return hashlib.sha256(log.read_bytes()).hexdigest()


def is_closed(raw: RawClient, within_s: float = 5.0) -> bool:
    """Whether the broker closes the connection."""
    raw.socket.settimeout(within_s)
    try:
        while raw.socket.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


# Frames


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1, 200 * MEBIBYTE])
def test_a_frame_of_an_impossible_size_closes_the_connection(size: int, bootstrap: str) -> None:
    with RawClient(bootstrap) as raw:
        raw.send(struct.pack(">i", size) + b"\0" * 100)
        assert is_closed(raw)


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x12\0\0", b"\0\x12\0\0\0\0\0\1\0\x7fab"])
def test_a_frame_too_short_for_its_header_closes_the_connection(frame: bytes, bootstrap: str) -> None:
    with RawClient(bootstrap) as raw:
        raw.send(struct.pack(">i", len(frame)) + frame)
        assert is_closed(raw)


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 1000, 32767])
def test_an_unknown_api_closes_the_connection(key: int, bootstrap: str) -> None:
    with RawClient(bootstrap) as raw:
        frame = struct.pack(">hhih", key, 0, 1, -1)
        raw.send(struct.pack(">i", len(frame)) + frame)
        assert is_closed(raw)


@pytest.mark.parametrize(
    ("key", "version"), [(METADATA, 99), (METADATA, -1), (PRODUCE, 2), (FETCH, 3), (18, -1)]
)
def test_a_version_out_of_range_closes_the_connection_but_for_api_versions(
    key: int, version: int, bootstrap: str
) -> None:
    with RawClient(bootstrap) as raw:
        frame = struct.pack(">hhih", key, version, 1, -1) + b"\0\0\0\0"
        raw.send(struct.pack(">i", len(frame)) + frame)
        if key == API_VERSIONS:
            assert int(parse_response(raw.receive(), API_VERSIONS, 0, 1).error_code) == 35
        else:
            assert is_closed(raw)


def test_lengths_inside_that_lie_close_the_connection(bootstrap: str) -> None:
    for length in (2**31 - 1, 10_000_000):
        with RawClient(bootstrap) as raw:
            frame = struct.pack(">hhih", METADATA, 1, 1, -1) + struct.pack(">i", length)
            raw.send(struct.pack(">i", len(frame)) + frame)
            assert is_closed(raw)


def test_a_half_sent_request_harms_nobody(bootstrap: str, world: World) -> None:
    values = {"acks": -1, "timeout": 5000, "topic_data": _produce_data(world.topic, world.batch)}
    frame = request_frame(PRODUCE, 8, 1, values)
    for cut in (1, 3, 4, 7, 20, len(frame) // 2, len(frame) - 1):
        raw = RawClient(bootstrap)
        raw.send(frame[:cut])
        raw.socket.close()
    with RawClient(bootstrap) as raw:
        raw.send(frame[: len(frame) // 2])
        raw.socket.shutdown(socket.SHUT_WR)
        assert is_closed(raw)


def test_a_request_cut_into_single_bytes_is_answered(bootstrap: str) -> None:
    with RawClient(bootstrap) as raw:
        for byte in request_frame(
            API_VERSIONS, 3, 5, {"client_software_name": "a", "client_software_version": "1"}
        ):
            raw.send(bytes([byte]))
        assert int(parse_response(raw.receive(), API_VERSIONS, 3, 5).error_code) == 0


# Batches


def _produce_data(topic: str, records: bytes | None) -> list[dict[str, Any]]:
    return [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]


def _with_crc(batch: bytes) -> bytes:
    """The batch with a checksum that fits its bytes."""
    return batch[:17] + struct.pack(">I", crc32c.crc32c(batch[21:])) + batch[21:]


def _patched(batch: bytes, at: int, value: bytes, *, crc: bool = True) -> bytes:
    changed = batch[:at] + value + batch[at + len(value) :]
    return _with_crc(changed) if crc else changed


BAD_BATCHES: dict[str, Callable[[bytes], bytes]] = {
    "corrupt crc": lambda batch: _patched(batch, 17, b"\1\2\3\4", crc=False),
    "corrupt payload": lambda batch: _patched(batch, len(batch) - 2, b"\xff", crc=False),
    "count too high": lambda batch: _patched(batch, 57, struct.pack(">i", 99)),
    "count zero": lambda batch: _patched(batch, 57, struct.pack(">i", 0)),
    "count negative": lambda batch: _patched(batch, 57, struct.pack(">i", -5)),
    "last offset delta": lambda batch: _patched(batch, 23, struct.pack(">i", 77)),
    "unknown magic": lambda batch: _patched(batch, 16, b"\7", crc=False),
    "length too long": lambda batch: _patched(batch, 8, struct.pack(">i", 10_000_000), crc=False),
    "length negative": lambda batch: _patched(batch, 8, struct.pack(">i", -20), crc=False),
    "length zero": lambda batch: _patched(batch, 8, struct.pack(">i", 0), crc=False),
    "control bit": lambda batch: _patched(batch, 21, struct.pack(">h", 0x20)),
    "cut": lambda batch: batch[:-3],
    "cut in the header": lambda batch: batch[:40],
    "two batches": lambda batch: batch + batch,
    "nothing": lambda batch: b"",
}


@pytest.mark.parametrize("kind", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_not_written(kind: str, bootstrap: str, world: World) -> None:
    records = BAD_BATCHES[kind](world.batch)
    with RawClient(bootstrap) as raw:
        values = {"acks": -1, "timeout": 5000, "topic_data": _produce_data(world.topic, records)}
        try:
            answer = raw.call(PRODUCE, 8, **values)
        except Disconnected:
            return
        (partition,) = answer.responses[0].partition_responses
        assert int(partition.error_code) != 0
        raw.call(API_VERSIONS, 0)


def test_bytes_after_a_batch_are_never_written(broker: BrokerProcess, bootstrap: str, world: World) -> None:
    topic = f"trailing-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic)
    with RawClient(bootstrap) as raw:
        values = {"acks": -1, "timeout": 5000, "topic_data": _produce_data(topic, world.batch + b"\0" * 7)}
        answer = raw.call(PRODUCE, 8, **values)
    # Apache Kafka takes the batch and drops what follows; to refuse the whole is as good.
    taken = int(answer.responses[0].partition_responses[0].error_code) == 0
    (log,) = Path(broker.log_dir()).rglob(f"{topic}-0/00000000000000000000.log")
    assert log.stat().st_size == (len(world.batch) if taken else 0)


def test_a_decompression_bomb_does_not_grow_the_broker(
    broker: BrokerProcess, bootstrap: str, world: World
) -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    payload = bomb.compress(bytes(900 * MEBIBYTE)) + bomb.flush()
    header = struct.pack(">qiiBIhiqqqhii", 0, 49 + len(payload), -1, 2, 0, 1, 0, 0, 0, -1, -1, -1, 1)
    topic = f"bomb-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic, compression_type="zstd")
    before = broker.resident_bytes()
    with RawClient(bootstrap, 30) as raw:
        values = {
            "acks": -1,
            "timeout": 20_000,
            "topic_data": _produce_data(topic, _with_crc(header + payload)),
        }
        try:
            answer = raw.call(PRODUCE, 8, **values)
            assert int(answer.responses[0].partition_responses[0].error_code) != 0
        except Disconnected:
            pass
    if KIND == "moldau":
        assert broker.resident_bytes() - before < 150 * MEBIBYTE


# Connections


def test_an_http_request_is_answered_in_http(bootstrap: str) -> None:
    if KIND != "moldau":
        pytest.skip("a courtesy of Moldau's own")
    for request in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /topics HTTP/1.1\r\n\r\n",
        b"HEAD / HTTP/1.0\r\n\r\n",
    ):
        with RawClient(bootstrap) as raw:
            raw.send(request)
            answer = b""
            while part := raw.socket.recv(4096):
                answer += part
            assert answer.startswith(b"HTTP/1.1 400 "), answer[:100]
            assert request.startswith(b"HEAD") or b"Kafka" in answer


def test_a_tls_hello_closes_the_connection(broker: BrokerProcess) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", broker.port), 10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(plain)
    if KIND == "moldau":
        eventually(lambda: "TLS" in broker.output.read_text(), 5.0)


def test_ten_thousand_idle_connections_cost_little(broker: BrokerProcess, bootstrap: str) -> None:
    count = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 2000:
        pytest.skip(f"no more than {hard} open files are allowed here")
    before = broker.resident_bytes()
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 2000), hard))
    connections: list[socket.socket] = []
    hello = request_frame(API_VERSIONS, 0, 1, {})
    try:
        for number in range(count):
            connections.append(socket.create_connection(("127.0.0.1", broker.port), 10))
            if number % 25 == 24:
                # An answer shows that the queue of waiting connections (50 long) is empty again.
                connections[-1].sendall(hello)
                assert connections[-1].recv(4)
        with RawClient(bootstrap) as raw:
            raw.call(API_VERSIONS, 0)
        if KIND == "moldau":
            assert (broker.resident_bytes() - before) / count < 12_000, "bytes an idle connection"
    finally:
        for one in connections:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_client_that_never_reads_is_not_buffered_for(broker: BrokerProcess, bootstrap: str) -> None:
    topic = f"large-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic)
    ConfluentClient(bootstrap).produce(topic, [Message(None, os.urandom(900_000)) for _ in range(20)])
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 16 * MEBIBYTE}
    values = {"replica_id": -1, "max_bytes": 16 * MEBIBYTE, "session_epoch": -1, "max_wait": 100}
    fetch = request_frame(FETCH, 11, 1, values | {"topics": [{"topic": topic, "partitions": [place]}]})
    before = broker.resident_bytes()
    raws = [RawClient(bootstrap) for _ in range(5)]
    for raw in raws:
        raw.socket.settimeout(0.2)
        try:
            for _ in range(200):
                raw.send(fetch * 10)
        except TimeoutError:
            pass  # the broker has stopped reading: what it should do
    time.sleep(1)
    grown = broker.resident_bytes() - before
    for raw in raws:
        raw.socket.close()
    if KIND == "moldau":
        assert grown < 5 * 40 * MEBIBYTE, f"{grown / MEBIBYTE:.0f} MiB for five deaf clients"


# Mutations of good requests


@pytest.mark.parametrize("seed", range(8))
def test_mutated_requests_end_in_an_answer_or_a_closed_connection(
    seed: int, bootstrap: str, world: World
) -> None:
    draw = random.Random(seed)
    with RawClient(bootstrap) as raw:
        ranges = raw.advertised()
    # Requests that make or change something would, mutated, do just that; the log must stay as it is.
    harmless = [
        (k, v, r) for k, v, r in requests_of_all(world, ranges) if k not in (PRODUCE, 19, 20, 21, 33, 37, 44)
    ]
    deadline = time.monotonic() + 6
    for _ in range(150):
        key, version, values = draw.choice(harmless)
        frame = bytearray(request_frame(key, version, 1, values)[4:])
        for _ in range(draw.choice((1, 1, 2, 5))):
            mutate(frame, draw)
        with RawClient(bootstrap, 3) as raw:
            raw.send(struct.pack(">i", len(frame)) + frame)
            raw.socket.settimeout(0.15)  # a long poll is a fair answer to a mutated fetch
            with contextlib.suppress(Disconnected, TimeoutError):
                raw.receive()
        if time.monotonic() > deadline:
            break


def mutate(frame: bytearray, draw: random.Random) -> None:
    """One small lie somewhere after the api key and version."""
    if len(frame) < 12:
        return
    at = draw.randrange(4, len(frame))
    kind = draw.randrange(5)
    if kind == 0:
        frame[at] = draw.randrange(256)
    elif kind == 1:
        frame[at] ^= 1 << draw.randrange(8)
    elif kind == 2:
        del frame[at : at + draw.randrange(1, 9)]
    elif kind == 3:
        frame[at:at] = draw.randbytes(draw.randrange(1, 9))
    else:
        frame[at : at + 4] = struct.pack(">i", draw.choice((-1, -2, 2**31 - 1, -(2**31), 1 << 24)))


@pytest.mark.parametrize("seed", range(4))
def test_mutated_batches_are_refused_or_valid(seed: int, bootstrap: str, world: World) -> None:
    draw = random.Random(1000 + seed)
    topic = f"mutated-{os.urandom(4).hex()}"
    create_topic(bootstrap, topic)
    good = 0
    for _ in range(100):
        records = bytearray(world.batch)
        for _ in range(draw.choice((1, 2, 5))):
            mutate(records, draw)
        if draw.random() < 0.5 and len(records) > 61:
            records = bytearray(_with_crc(bytes(records)))
        with RawClient(bootstrap) as raw:
            values = {"acks": -1, "timeout": 5000, "topic_data": _produce_data(topic, bytes(records))}
            try:
                answer = raw.call(PRODUCE, 8, **values)
            except Disconnected:
                continue
            good += int(answer.responses[0].partition_responses[0].error_code) == 0
    # Whatever was taken must be whole: an ordinary message after it is found by reading from the start.
    with RawClient(bootstrap) as raw:
        raw.call(PRODUCE, 8, acks=-1, timeout=5000, topic_data=_produce_data(topic, world.batch))
        place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MEBIBYTE}
        values = {"replica_id": -1, "max_bytes": MEBIBYTE, "session_epoch": -1, "max_wait": 100}
        answer = raw.call(FETCH, 11, **values, topics=[{"topic": topic, "partitions": [place]}])
        data = bytes(answer.responses[0].partitions[0].records)
    batches = 0
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        assert crc32c.crc32c(data[21:size]) == int.from_bytes(data[17:21], "big")
        data = data[size:]
        batches += 1
    assert batches == good + 1
