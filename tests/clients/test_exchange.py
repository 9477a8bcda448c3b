"""What one client writes, every client reads the same: six clients, five codecs, keys, headers, tombstones,
nulls.

All topics are written once a session, and each reader reads them all in one go; the tests look at one cell
each.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable

import pytest
from client_model import CODECS, Client, Message, Received
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import CLIENT_NAMES
from raw_client import RawClient

FETCH = 1
LIST_OFFSETS = 2
CODEC_NUMBERS = {name: number for number, name in enumerate(CODECS)}

MESSAGES = [
    Message(b"key", b"value", (("trace", b"1"), ("other", b"two"))),
    Message(b"key", b"second value of one key"),
    Message(b"gone", None),
    Message(None, b"no key"),
    Message("ключ".encode(), "hodnota: příliš žluťoučký kůň 🐎".encode(), (("hlavička", "č".encode()),)),
    Message(b"large", b"Vltava " * 6000),
    Message(b"large", b"Elbe " * 4000),
]
NULL_HEADER = Message(b"nothing in the header", b"v", (("empty", None),))
CANNOT_WRITE_A_NULL_HEADER = ("kafka-python", "kafkajs")

Cell = tuple[str, str]


def messages_of(writer: str) -> list[Message]:
    """What a writer is asked to write."""
    return MESSAGES if writer in CANNOT_WRITE_A_NULL_HEADER else [*MESSAGES, NULL_HEADER]


@pytest.fixture(scope="session")
def topic_of(bootstrap: str) -> dict[Cell, str]:
    """A topic for each writer and codec."""
    run = os.urandom(3).hex()
    names = {(name, codec): f"exchange-{run}-{name}-{codec}" for name in CLIENT_NAMES for codec in CODECS}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names.values()]).values():
        future.result(20)
    return names


@pytest.fixture(scope="session")
def written(topic_of: dict[Cell, str], client_by_name: Callable[[str], Client]) -> Callable[[str], Client]:
    """Lets a writer write with all its codecs, once."""

    @functools.cache
    def write(name: str) -> Client:
        client = client_by_name(name)
        for codec in CODECS:
            client.produce(topic_of[name, codec], messages_of(name), codec)
        return client

    return write


@pytest.fixture(scope="session")
def read_by(
    topic_of: dict[Cell, str], written: Callable[[str], Client], client_by_name: Callable[[str], Client]
) -> Callable[[str, str], dict[str, list[Received]]]:
    """What a reader finds in all topics of a writer."""

    @functools.cache
    def read(reader: str, writer: str) -> dict[str, list[Received]]:
        written(writer)
        counts = {topic_of[writer, codec]: len(messages_of(writer)) for codec in CODECS}
        return client_by_name(reader).read(counts)

    return read


@pytest.mark.parametrize("reader", CLIENT_NAMES)
@pytest.mark.parametrize("writer", CLIENT_NAMES)
def test_every_reader_finds_what_every_writer_wrote(
    writer: str,
    reader: str,
    topic_of: dict[Cell, str],
    read_by: Callable[[str, str], dict[str, list[Received]]],
) -> None:
    found = read_by(reader, writer)
    messages = messages_of(writer)
    for codec in CODECS:
        records = found[topic_of[writer, codec]]
        assert [one.offset for one in records] == list(range(len(messages))), codec
        assert [one.content for one in records] == [one.content for one in messages], codec
        now_ms = time.time() * 1000
        assert all(now_ms - 600_000 < one.timestamp_ms <= now_ms + 1000 for one in records), codec


@pytest.mark.parametrize("writer", CLIENT_NAMES)
def test_the_broker_keeps_the_codec_that_the_writer_chose(
    writer: str, topic_of: dict[Cell, str], written: Callable[[str], Client], bootstrap: str
) -> None:
    written(writer)
    for codec in CODECS:
        codecs = stored_codecs(bootstrap, topic_of[writer, codec])
        # A client may leave a batch uncompressed which would only grow; the large values always shrink.
        assert CODEC_NUMBERS[codec] in codecs, (codec, codecs)
        assert codecs <= {CODEC_NUMBERS[codec], 0}, (codec, codecs)


def stored_codecs(bootstrap: str, topic: str) -> set[int]:
    """The codec bits of all batches of partition 0."""
    codecs = set()
    with RawClient(bootstrap) as raw:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        answer = raw.call(
            FETCH,
            11,
            replica_id=-1,
            max_wait=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=0,
            session_epoch=-1,
            topics=[{"topic": topic, "partitions": [partition]}],
            rack_id="",
        )
        data = bytes(answer.responses[0].partitions[0].records)
    at = 0
    while at + 61 <= len(data):
        codecs.add(int.from_bytes(data[at + 21 : at + 23], "big") & 7)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return codecs
