"""A page: its path, its template, its data; the same row makes its HTML, its JSON, its entry in OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.services.console.pages.call import Call

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What the URL's query may say."""

    name: str
    help: str
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """`path` has names in braces; the same as JSON is at `path`.json (`/`: /overview.json) and below /api."""

    name: str
    path: str
    template: str
    section: str
    summary: str
    data: Callable[[Call], Awaitable[Data]]
    parameters: Sequence[Parameter] = ()

    @property
    def json_path(self) -> str:
        """Where the page is as JSON."""
        return "/overview.json" if self.path == "/" else f"{self.path}.json"


LIST = (
    Parameter("q", "Parts of the name, in any order and case."),
    Parameter("sort", "A column; with - before it from the largest."),
    Parameter("page", "The page, from 1.", {"type": "integer", "minimum": 1}),
    Parameter("size", "Rows a page: 25, 50, 100 or 250.", {"type": "integer", "enum": [25, 50, 100, 250]}),
)
