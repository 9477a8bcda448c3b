"""docs/connect-transforms.md: the settings' tables, and its example; Kafka's settings are all there."""

from __future__ import annotations

import sys
import types
from importlib.util import find_spec

import pyarrow as pa
import pytest
from kafka_questions import answers

from moldau.connect import batch_of, rows
from moldau.connect.document import page
from moldau.connect.finding import find
from moldau.connect.plugins import PLUGINS, Kind
from moldau.connect.settings import REQUIRED
from moldau.connect.transforms.building import chain_of


def test_the_page_is_what_the_rows_say(pytestconfig: pytest.Config) -> None:
    path = pytestconfig.rootpath / "docs" / "connect-transforms.md"
    assert path.read_text() == page(path.read_text()), (
        "run: python -m moldau.connect.document docs/connect-transforms.md"
    )


def test_the_code_of_every_plugin_is_there() -> None:
    """Found, not imported: their libraries are extras."""
    places = {plugin.place.partition(":")[0] for plugin in PLUGINS}
    assert [each for each in sorted(places) if find_spec(each) is None] == []


def test_the_example_of_a_function(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (pytestconfig.rootpath / "docs" / "connect-transforms.md").read_text()
    code = text.partition('```python title="shop"\n')[2].partition("```")[0]
    module = types.ModuleType("shop")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "shop", module)
    lines = text.partition("    transforms=dear\n")[2].partition("\n\n")[0].splitlines()
    config = {"transforms": "dear"} | dict(line.strip().split("=", 1) for line in lines)
    batch = batch_of("t", pa.table({"amount": [100, 250, 300]}))
    made, failures = chain_of(config).apply(batch)
    assert failures == []
    assert [row.value["amount"] for each in made for row in rows(each)] == [250, 300]


KINDS = (Kind.CONVERTER, Kind.TRANSFORM, Kind.PREDICATE)


@pytest.mark.parametrize(("question", "answer"), answers("settings"))
def test_settings_are_kafkas(question: dict[str, str], answer: dict[str, list[dict[str, str]]]) -> None:
    """Names, types, importances and defaults; texts are our own."""
    ours = {row.name: row for row in find(KINDS, question["type"]).settings}
    for theirs in answer["settings"]:
        if theirs["name"] == "converter.type":
            continue
        row = ours[theirs["name"]]
        assert row.type.value == theirs["type"]
        assert row.importance.value == theirs["importance"], row.name
        if theirs["default"] == "REQUIRED":
            assert row.default is REQUIRED
        elif theirs["default"] in ("null", "[]"):
            assert row.default in (None, ())
        else:
            default = str(row.default).lower() if isinstance(row.default, bool) else str(row.default)
            assert default == theirs["default"], row.name
