"""Bytes and JSON of values are those of Confluent's Java, and what it refuses is refused."""

from __future__ import annotations

import base64

import pytest
from value_cases import VALUES, recorded

from moldau.schemas.languages import parse
from moldau.schemas.schema import SchemaText, SchemaType
from moldau.schemas.serde import SerdeError, serde_for

ANSWERS = recorded()


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_written_and_shown_as_by_confluent(name: str) -> None:
    kind, schema, value = VALUES[name]
    serde = serde_for(parse(SchemaText(SchemaType(kind), schema)))
    answer = ANSWERS[name]
    if "refused" in answer:
        with pytest.raises(SerdeError):
            serde.from_json(value)
        return
    assert serde.from_json(value) == base64.b64decode(answer["bytes"])
    assert serde.to_json(base64.b64decode(answer["bytes"])) == answer["json"]
