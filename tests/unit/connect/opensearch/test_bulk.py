"""Lines of a bulk request, and which of its answer's items count as done."""

from typing import Any

import pytest

from moldau.connect.connectors.opensearch.bulk import Document, Method, refusals_of
from moldau.connect.connectors.opensearch.mappings import mapping_of
from moldau.connect.schema import Field, Schema, Type

VERSIONED = Document(0, "a", b'{"v":1}', 7)
DELETION = Document(1, "b", None, 8)
PLAIN = Document(2, "c", b'{"v":2}', None)


def test_the_lines_of_each_kind() -> None:
    assert VERSIONED.lines("i", Method.INSERT) == (
        b'{"index":{"_index":"i","_id":"a","version":7,"version_type":"external"}}\n{"v":1}\n'
    )
    assert DELETION.lines("i", Method.INSERT) == (
        b'{"delete":{"_index":"i","_id":"b","version":8,"version_type":"external"}}\n'
    )
    assert PLAIN.lines("i", Method.INSERT) == b'{"index":{"_index":"i","_id":"c"}}\n{"v":2}\n'
    assert VERSIONED.lines("i", Method.UPSERT) == (
        b'{"update":{"_index":"i","_id":"a","retry_on_conflict":5}}\n{"doc_as_upsert":true,"doc":{"v":1}}\n'
    )


@pytest.mark.parametrize(
    ("document", "status", "refused"),
    [
        (VERSIONED, 201, False),
        (VERSIONED, 409, False),  # a newer one is there
        (PLAIN, 409, True),
        (DELETION, 404, False),  # it is gone
        (VERSIONED, 404, True),  # there is no such index
        (VERSIONED, 400, True),
        (VERSIONED, 429, True),
    ],
)
def test_what_counts_as_done(document: Document, status: int, refused: bool) -> None:
    item: dict[str, Any] = {"index": {"status": status, "error": {"type": "t", "reason": "r"}}}
    refusals = refusals_of([document], {"items": [item]})
    assert bool(refusals) is refused
    assert [each.may_succeed_later for each in refusals] == ([status == 429] if refused else [])


def test_a_reason_goes_down_to_its_cause() -> None:
    error = {"type": "parsing", "reason": "no", "caused_by": {"type": "number_format", "reason": "three"}}
    (refusal,) = refusals_of([PLAIN], {"items": [{"index": {"status": 400, "error": error}}]})
    assert refusal.reason == "parsing: no: number_format: three"


def test_an_answer_without_an_item_for_each_is_no_answer() -> None:
    with pytest.raises(ValueError, match="an item for each"):
        refusals_of([PLAIN], {"items": []})


def test_every_type_has_a_mapping() -> None:
    for kind in Type:
        inner = Schema(Type.STRING) if kind in (Type.ARRAY, Type.MAP) else None
        assert mapping_of(Schema(kind, value_schema=inner)) is not None
    nested = Schema(
        Type.STRUCT, fields=(Field("a", Schema(Type.STRUCT, fields=(Field("b", Schema(Type.INT8)),))),)
    )
    assert mapping_of(nested) == {"properties": {"a": {"properties": {"b": {"type": "byte"}}}}}
