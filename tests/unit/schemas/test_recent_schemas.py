"""What schemas were parsed into is kept for those that were used last."""

import gc
import weakref

from moldau.schemas.avro import parsed as avro
from moldau.schemas.json_schema import parsed as json_schema
from moldau.schemas.languages import parse
from moldau.schemas.recent import Recent
from moldau.schemas.schema import SchemaText, SchemaType


def test_values_are_forgotten_by_weight_and_made_again() -> None:
    recent: Recent[str] = Recent(10)
    made = []

    def value(owner: str, weight: int = 4) -> str:
        return recent.get(owner, weight, lambda: (made.append(owner), owner.upper())[1])

    assert [value(each) for each in "abab"] == ["A", "B", "A", "B"]
    assert made == ["a", "b"]
    value("c")  # together 12: the one that was used longest ago goes
    value("b")
    assert made == ["a", "b", "c"]
    value("a")
    assert made == ["a", "b", "c", "a"]
    value("heavy", 11)  # heavier than all that may be kept: nothing is
    value("a")
    assert made == ["a", "b", "c", "a", "heavy", "a"]


def test_a_value_that_is_put_again_counts_once() -> None:
    recent: Recent[int] = Recent(10)
    for number in range(5):
        recent.put("a", 6, number)
    assert recent.get("a", 6, lambda: -1) == 4


def test_schemas_work_when_their_trees_are_forgotten() -> None:
    old = parse(SchemaText(SchemaType.AVRO, '{"type":"record","name":"R","fields":[]}'))
    new = parse(SchemaText(SchemaType.AVRO, '["null","R"]'), {"r": old.canonical})
    json_old = parse(SchemaText(SchemaType.JSON, '{"type":"string","maxLength":1.0}'))
    json_new = parse(SchemaText(SchemaType.JSON, '{"$ref":"a"}'), {"a": '{"type":"integer"}'})
    before = [new.differences(old), old.differences(new), json_old.differences(json_new)]
    text = [new.formatted("resolved"), new.normalized(), json_new.normalized()]
    for kept in (avro._TREES, json_schema._NODES):
        kept.put("everything else", 10**9, None)  # type: ignore[arg-type]
    assert [new.differences(old), old.differences(new), json_old.differences(json_new)] == before
    assert [new.formatted("resolved"), new.normalized(), json_new.normalized()] == text


def test_schemas_that_nobody_holds_are_freed() -> None:
    parsed = parse(SchemaText(SchemaType.AVRO, '{"type":"fixed","name":"F","size":1}'))
    gone = weakref.ref(parsed)
    del parsed
    avro._TREES.put("everything else", 10**9, None)  # type: ignore[arg-type]
    gc.collect()
    assert gone() is None


def test_few_trees_of_small_schemas_are_kept() -> None:
    for number in range(1_000):
        parse(SchemaText(SchemaType.AVRO, f'{{"type":"fixed","name":"F{number}","size":1}}'))
    assert 500 < len(avro._TREES._kept) < 850
