"""docs/console.md has every setting; the OpenAPI document is valid and describes what exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from openapi_spec_validator import validate

from moldau.services.console.api.document import document
from moldau.services.console.app import PAGES
from moldau.services.console.changes.brokers import BrokerChanges
from moldau.services.console.changes.connectors import ConnectorChanges
from moldau.services.console.changes.groups import GroupChanges
from moldau.services.console.changes.produce import ProduceChange
from moldau.services.console.changes.topics import TopicChanges
from moldau.services.console.settings_document import replaced

DOCUMENT = Path(__file__).parents[3] / "docs" / "console.md"
STATIC = Path(__file__).parents[3] / "src/moldau/services/console/static"
NOTHING: Any = None


def test_the_document_is_up_to_date() -> None:
    text = DOCUMENT.read_text()
    assert replaced(text) == text, "run: python -m moldau.services.console.settings_document docs/console.md"


def test_the_openapi_document_is_valid() -> None:
    changes = [
        *ConnectorChanges([]).all(),
        *TopicChanges(NOTHING).all(),
        *BrokerChanges(NOTHING).all(),
        *ProduceChange(NOTHING, NOTHING).all(),
        *GroupChanges(NOTHING, NOTHING).all(),
    ]
    found = document(PAGES, changes)
    validate(found)
    assert len(found["paths"]) == len({page.path for page in PAGES}) + len(changes) + 1
    operations = [each["operationId"] for path in found["paths"].values() for each in path.values()]
    assert len(operations) == len(set(operations))


def test_every_file_of_others_has_its_licence_and_version() -> None:
    listed = (STATIC / "vendor" / "README.md").read_text()
    for path in (STATIC / "vendor").iterdir():
        if path.suffix in (".js", ".css"):
            assert f"{path.name}" in listed
            name = path.name.split("-")[0]
            licence = "htmx-sse" if path.name.startswith("htmx-sse") else name
            assert (STATIC / "vendor" / f"{licence}.LICENSE.txt").exists(), path.name


def test_own_scripts_are_short_and_pages_have_none() -> None:
    for path in STATIC.glob("*.js"):
        assert len(path.read_text().splitlines()) <= 200, path.name
    for path in (STATIC.parent / "pages" / "templates").glob("*.html"):
        text = path.read_text()
        assert "<style" not in text, path.name
        assert " style=" not in text, path.name
        assert "hx-on" not in text, path.name
        assert " onclick" not in text, path.name
        assert "|safe" not in text.replace(" ", ""), path.name
        assert "//" not in text.replace("http://127.0.0.1", ""), f"{path.name}: from elsewhere"
