"""OpenSearchSink against a real OpenSearch: documents by key, what is written again, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pyarrow as pa
import pytest
from local_opensearch import missing, opensearch
from sink_batches import json_batch, keyed_batch, settings_of, sink_context, tombstones

from moldau.connect import BadRecord, Column, Field, Schema, TopicPartition, Type
from moldau.connect.connectors.opensearch.sink import OpenSearchSink

pytestmark = pytest.mark.xdist_group("opensearch")
numbers = count()


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    why = missing()
    if why:
        pytest.skip(f"OpenSearch cannot run: {why}")
    with opensearch(tmp_path_factory.mktemp("opensearch") / "home") as address:
        yield address


class Started:
    """A sink that writes to an index of its own."""

    def __init__(self, address: str, tolerant: bool = True, **settings: Any) -> None:
        self.address = address
        self.topic = f"orders-{next(numbers)}"
        self.origin = TopicPartition(self.topic, 0)
        self.bad: list[str] = []
        self.sink = OpenSearchSink()
        given = {"connection.url": [address], **settings}
        self.sink.start(settings_of(OpenSearchSink, given), sink_context(self.bad if tolerant else None))

    def write(self, *batches: Any) -> None:
        for batch in batches:
            self.sink.write(batch, batch.offsets[0].as_py())

    def documents(self) -> dict[str, Any]:
        httpx.post(f"{self.address}/{self.topic}/_refresh").raise_for_status()
        answer = httpx.get(f"{self.address}/{self.topic}/_search?size=1000").json()
        return {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}


def test_a_record_replaces_the_document_of_its_key_and_a_tombstone_deletes_it(address: str) -> None:
    started = Started(address, **{"behavior.on.null.values": "delete"})
    started.write(
        keyed_batch({"a": {"v": 1}, "b": {"v": 2}}, 0, started.origin),
        keyed_batch({"a": {"v": 3}}, 2, started.origin),
        tombstones(["b", "never"], 3, started.origin),
    )
    assert started.documents() == {"a": {"v": 3}}


def test_an_older_record_that_comes_again_changes_nothing(address: str) -> None:
    started = Started(address)
    first = keyed_batch({"a": {"v": 1}}, 0, started.origin)
    started.write(first, keyed_batch({"a": {"v": 2}}, 1, started.origin), first)
    assert started.documents() == {"a": {"v": 2}}
    assert started.bad == []


def test_without_keys_each_record_is_a_document_once(address: str) -> None:
    started = Started(address, **{"key.ignore": True})
    batch = json_batch([{"v": 1}, {"v": 2}], 5, started.origin)
    started.write(batch, batch)
    assert started.documents() == {f"{started.topic}+0+5": {"v": 1}, f"{started.topic}+0+6": {"v": 2}}


def test_fields_are_changed_in_the_document_that_is_there(address: str) -> None:
    started = Started(address, **{"write.method": "UPSERT"})
    started.write(
        keyed_batch({"a": {"v": 1}}, 0, started.origin), keyed_batch({"a": {"w": 2}}, 1, started.origin)
    )
    assert started.documents() == {"a": {"v": 1, "w": 2}}


def test_a_document_that_is_refused_is_a_bad_record_and_the_others_are_there(address: str) -> None:
    started = Started(address)
    started.write(keyed_batch({"a": {"v": 1}}, 0, started.origin))
    started.write(keyed_batch({"b": {"v": 2}, "c": {"v": "three"}, "d": {"v": 4}}, 1, started.origin))
    assert sorted(started.documents()) == ["a", "b", "d"]
    assert len(started.bad) == 1
    assert started.bad[0].startswith("1: the index refuses the document: mapper_parsing_exception")


def test_without_tolerance_it_ends_the_write(address: str) -> None:
    started = Started(address, tolerant=False)
    with pytest.raises(BadRecord, match=r"key\.ignore=true"):
        started.write(json_batch([{"v": 1}], 0, started.origin))


def test_requests_are_cut_by_size(address: str) -> None:
    started = Started(address, **{"batch.size": 10, "bulk.size.bytes": 500})
    started.write(keyed_batch({f"k{number}": {"v": "x" * 100} for number in range(50)}, 0, started.origin))
    assert len(started.documents()) == 50


def test_a_new_index_has_the_types_of_the_schema(address: str) -> None:
    started = Started(address, **{"key.ignore": True})
    day = Schema(Type.INT32, optional=True, name="org.apache.kafka.connect.data.Date")
    schema = Schema(Type.STRUCT, fields=(Field("id", Schema(Type.INT16)), Field("day", day)))
    import datetime

    values = pa.array(
        [{"id": 1, "day": datetime.date(2026, 1, 2)}], pa.struct([("id", pa.int16()), ("day", pa.date32())])
    )
    batch = json_batch([None], 0, started.origin)
    started.write(
        type(batch)(
            batch.topic,
            batch.key,
            Column(schema, values),
            batch.timestamps_ms,
            origin=batch.origin,
            offsets=batch.offsets,
        )
    )
    mappings = httpx.get(f"{address}/{started.topic}/_mapping").json()[started.topic]["mappings"][
        "properties"
    ]
    assert (mappings["id"]["type"], mappings["day"]["type"]) == ("short", "date")
    assert list(started.documents().values()) == [{"id": 1, "day": "2026-01-02"}]


def test_the_next_address_is_tried(address: str) -> None:
    started = Started(address, **{"connection.url": ["http://127.0.0.1:9", address]})
    started.write(keyed_batch({"a": {"v": 1}}, 0, started.origin))
    assert started.documents() == {"a": {"v": 1}}
