"""docs/rest-proxy.md has every setting of the proxy, as its row says it."""

import re
from pathlib import Path

import pytest

from moldau.services.http.settings import HttpSettings
from moldau.services.rest.openapi.document import document
from moldau.services.rest.settings import RestSettings
from moldau.services.rest.settings_document import replaced, table
from moldau.services.rest.v2.routes import ROUTES

DOCUMENT = Path(__file__).parents[3] / "docs" / "rest-proxy.md"


def test_the_document_is_up_to_date():
    text = DOCUMENT.read_text()
    assert replaced(text) == text, "run: python -m moldau.services.rest.settings_document docs/rest-proxy.md"


@pytest.mark.parametrize("name", sorted(set(RestSettings.ROWS) - set(HttpSettings.ROWS)))
def test_every_row_is_in_the_table(name: str):
    assert f"| `{name}` |" in table()


def shape(path: str) -> str:
    """A path without the names of its parts."""
    return re.sub(r"{\w+}", "{}", path)


def test_the_openapi_document_has_every_path_of_v2():
    described = {
        (method.upper(), shape(path))
        for path, operations in document()["paths"].items()
        for method in operations
        if not path.startswith("/v3") and method in ("get", "post", "delete")
    }
    assert described == {(method, shape(path)) for method, path, _, _ in ROUTES}
