"""What belongs to one request beside its bytes: limits, who asks, the memory that its body holds.

The application's outermost layer makes it and puts it into the scope; bodies.py, answers.py and the routes
take it from there.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import HTTPConnection

from moldau.services.http.problems import HttpProblem

SCOPE_KEY = "moldau.context"
CLIENT_IS_GONE: ContextVar[Callable[[], bool]] = ContextVar("client_is_gone", default=lambda: False)
"""Whether the client of the running request has left; for work in threads, which goes on without it."""
CLIENT_HOST: ContextVar[str] = ContextVar("client_host", default="")
"""The host that the running request comes from."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: ANONYMOUS where no login is set."""

    name: str
    roles: frozenset[str] = frozenset()


ANONYMOUS = Principal("ANONYMOUS")


class MemoryBudget:
    """Bytes of bodies that are held now, of all requests; one limit stands over them."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0

    def hold(self, count_bytes: int) -> None:
        """Hold more. HttpProblem 503 if the limit is reached."""
        if self.held_bytes + count_bytes > self.bytes_max:
            raise HttpProblem(
                503,
                "the requests of the moment hold all memory that is set aside for bodies: try again",
                headers={"Retry-After": "1"},
            )
        self.held_bytes += count_bytes

    def give_back(self, count_bytes: int) -> None:
        """Hold less."""
        self.held_bytes -= count_bytes


@dataclass(slots=True)
class RequestContext:
    """One request."""

    budget: MemoryBudget
    body_bytes_max: int
    json_depth_max: int
    idle_seconds: float
    offered: tuple[str, ...]
    principal: Principal = ANONYMOUS
    held_bytes: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    def hold(self, count_bytes: int) -> None:
        """Account for bytes that are kept for the request until it ends, or until `release`."""
        if self.held_bytes + count_bytes > self.budget.bytes_max:
            raise HttpProblem(
                413,
                f"the request needs more than {self.budget.bytes_max} bytes of memory: send it in parts "
                "(moldau.http.bodies.bytes.max)",
            )
        self.budget.hold(count_bytes)
        self.held_bytes += count_bytes

    def release(self, count_bytes: int | None = None) -> None:
        """Give back some, or all."""
        count_bytes = self.held_bytes if count_bytes is None else count_bytes
        self.budget.give_back(count_bytes)
        self.held_bytes -= count_bytes


def context_of(request: HTTPConnection) -> RequestContext:
    """The context of a request."""
    context: RequestContext = request.scope[SCOPE_KEY]
    return context
