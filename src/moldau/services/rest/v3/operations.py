"""The table of v3's operations: each handler stands in it with what the OpenAPI document says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.responses import Response

    from moldau.services.rest.v3.call import Call

Handler = Callable[["Call"], Awaitable["Response"]]


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter in the query; its schema is the name of one in the document, or JSON Schema itself."""

    name: str
    description: str
    schema: str | Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class Right:
    """What the caller must be allowed (http/rights.py), before the handler runs.

    The name is a part of the path. Where it is not, a handler asks about each topic or group itself; the
    cluster is always named `kafka`.
    """

    operation: str
    kind: str
    named_by: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    """After /v3, with {parts} that vary."""
    operation_id: str
    summary: str
    tag: str
    right: Right | None
    """None: whoever is let in may."""
    handler: Handler
    answers: Mapping[int, str | None]
    """By status the name of the response's schema; None without a body."""
    body: str | None = None
    query: tuple[Query, ...] = ()
    media_types: tuple[str, ...] = ("application/json",)
    """What the response may be sent in."""


OPERATIONS: list[Operation] = []
"""All operations, in the order in which their files were imported (routes.py)."""


def operation(
    method: str,
    path: str,
    operation_id: str,
    summary: str,
    *,
    tag: str,
    right: Right | None,
    answers: Mapping[int, str | None],
    body: str | None = None,
    query: Iterable[Query] = (),
    media_types: tuple[str, ...] = ("application/json",),
) -> Callable[[Handler], Handler]:
    """Register a handler."""

    def register(handler: Handler) -> Handler:
        OPERATIONS.append(
            Operation(
                method,
                path,
                operation_id,
                summary,
                tag,
                right,
                handler,
                answers,
                body,
                tuple(query),
                media_types,
            )
        )
        return handler

    return register
