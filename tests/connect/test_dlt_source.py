"""The dlt source: incremental state as the offset, whole runs, and what resources may yield."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from sink_batches import settings_of

from moldau.connect import ConnectError, Read, SourceContext
from moldau.connect.building import rows

pytest.importorskip("dlt")
import dlt_sources

from moldau.connect.connectors.dlt.source import DltSource


@pytest.fixture(autouse=True)
def no_rows() -> Iterator[None]:
    dlt_sources.ROWS.clear()
    yield
    dlt_sources.ROWS.clear()


def started(**settings: Any) -> DltSource:
    source = DltSource()
    context = SourceContext("c", 0, lambda: False, lambda seconds: False, lambda: None)
    given = {"dlt.source": "dlt_sources:both", "dlt.interval.ms": 0, **settings}
    source.start(settings_of(DltSource, given), context)
    return source


def one_run(source: DltSource, resource: str, offset: Mapping[str, Any] | None = None) -> list[Read]:
    """Everything up to the first pause."""
    reads = []
    for read in source.read({"resource": resource}, offset):
        if read is None:
            break
        reads.append(read)
        if read.ends_transaction:
            break
    return reads


def keys_and_values(reads: list[Read]) -> list[tuple[Any, Any]]:
    return [(row.key, row.value) for read in reads for batch in read.batches for row in rows(batch)]


def test_resources_are_partitions() -> None:
    assert started().partitions() == [{"resource": "events"}, {"resource": "table"}]
    assert started(**{"dlt.resources": ["table"]}).partitions() == [{"resource": "table"}]
    with pytest.raises(ConnectError, match="no resource nobody"):
        started(**{"dlt.resources": ["nobody"]}).partitions()


def test_a_run_is_one_transaction_and_its_end_the_offset() -> None:
    dlt_sources.ROWS += [{"id": 1, "at": 2}, {"id": 2, "at": 1}, {"id": 3, "at": 3}]
    reads = one_run(started(), "events")
    assert [read.ends_transaction for read in reads] == [False, True]
    assert sorted(keys_and_values(reads)) == [
        (1, {"id": 1, "at": 2}),
        (2, {"id": 2, "at": 1}),
        (3, {"id": 3, "at": 3}),
    ]
    dlt_sources.ROWS += [{"id": 4, "at": 3}, {"id": 5, "at": 4}]
    again = one_run(started(), "events", reads[-1].offset)
    assert sorted(key for key, _ in keys_and_values(again)) == [4, 5]  # 3 was seen at the cursor


def test_a_run_that_breaks_leaves_the_offset_where_it_was() -> None:
    dlt_sources.ROWS += [{"id": 1, "at": 1, "breaks": True}, {"id": 2, "at": 2}]
    reads: list[Read | None] = []
    with pytest.raises(ConnectError, match="gone away"):
        reads.extend(started().read({"resource": "events"}, None))
    assert not [read for read in reads if read is not None and read.ends_transaction]
    dlt_sources.ROWS[0].pop("breaks")
    assert sorted(key for key, _ in keys_and_values(one_run(started(), "events"))) == [1, 2]


def test_a_table_has_a_schema() -> None:
    (read,) = one_run(started(**{"key.fields": ["id"], "topic.prefix": "app."}), "table")
    (batch,) = read.batches
    assert batch.topic == "app.table"
    assert batch.value.schema is not None
    assert [each.name for each in batch.value.schema.fields] == ["id", "day"]
    assert [row.key for row in rows(batch)] == [1, 2]


def test_what_is_no_source_is_told() -> None:
    for place, message in (
        ("dlt_sources:nothing", "gave a int"),
        ("dlt_sources:absent", "cannot be imported"),
        ("nowhere", "module:function"),
    ):
        problems = DltSource().check(settings_of(DltSource, {"dlt.source": place}))
        assert message in problems["dlt.source"][0]


def test_offsets_of_an_administrator_are_looked_at() -> None:
    source = started()
    source.check_offsets(one_run(source, "table")[-1].offset)
    for wrong in ({"position": 1}, {"state": "no json"}, {"state": "[1]"}):
        with pytest.raises(ConnectError):
            source.check_offsets(wrong)
