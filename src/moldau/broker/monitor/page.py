"""Request and response of a monitoring page, independent of HTTP (server/http.py)."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Ask:
    """The request. `query` has the last value of each name; header names are in lower case."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def wants_text(self) -> bool:
        """Whether the client is a person: ?format=text, or a browser's Accept header."""
        wanted = self.query.get("format")
        if wanted is not None:
            return wanted == "text"
        accept = self.headers.get("accept", "")
        return "application/json" not in accept and ("text/html" in accept or "text/plain" in accept)


@dataclass(frozen=True, slots=True)
class Page:
    """The response: complete, or in pieces between which the sender yields."""

    content: bytes | Iterator[bytes]
    content_type: str = TEXT
    status: int = 200


Route = Callable[[Ask], Page]


def text_page(text: str, status: int = 200) -> Page:
    """Plain text; a newline is added."""
    return Page(f"{text.rstrip()}\n".encode(), TEXT, status)


def json_page(value: object, status: int = 200) -> Page:
    """JSON, indented for people."""
    return Page(f"{json.dumps(value, indent=2, default=str)}\n".encode(), JSON, status)
