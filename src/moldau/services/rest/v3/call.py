"""One request of v3: the parts of its path, its query and body, and the way to the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moldau.client.admin.problem import KafkaProblem
from moldau.client.cluster import Cluster
from moldau.common.core.compact_json import compact_json
from moldau.services.http.answers import bytes_answer, json_answer, media_type
from moldau.services.http.bodies import parse_held, read_bytes
from moldau.services.http.problems import HttpProblem
from moldau.services.rest.v3.errors import INVALID_PAYLOAD, http_problem, not_found
from moldau.services.rest.v3.resources import Links, collection

if TYPE_CHECKING:
    from moldau.services.rest.v3.service import Service

ResultT = TypeVar("ResultT")
RowT = TypeVar("RowT")

_ROWS_INLINE_MAX = 100


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose operation and cluster were found."""

    service: Service
    request: Request
    path: Mapping[str, str]
    links: Links

    @property
    def cluster_id(self) -> str:
        """The cluster's id; the one in the path is the same."""
        return self.path["cluster_id"]

    def number(self, name: str) -> int:
        """A part of the path that is a number, such as partition_id. HttpProblem 404."""
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise not_found(f"{text} is no {name}.")
        return int(text)

    async def ask(self, work: Callable[[Cluster], ResultT]) -> ResultT:
        """Call a function of admin/ with a connected client. HttpProblem."""
        try:
            return await self.service.admin.call(work)
        except KafkaProblem as problem:
            raise http_problem(problem) from None

    async def body(self) -> dict[str, Any]:
        """The request's body, a JSON object. HttpProblem 400, 42206."""
        text = await read_bytes(self.request)
        value = await parse_held(self.request, text) if text.strip() else None
        if value is None:
            raise HttpProblem(INVALID_PAYLOAD, "Payload error. The request has no data.")
        if not isinstance(value, dict):
            raise HttpProblem(400, "The request's body is no JSON object.")
        return value

    def query(self, name: str) -> str | None:
        """A parameter of the query; None if it is absent or empty."""
        return self.request.query_params.get(name) or None

    def flag(self, name: str) -> bool:
        """A parameter of the query that is true or false. HttpProblem 400."""
        text = (self.query(name) or "false").lower()
        if text not in ("true", "false"):
            raise HttpProblem(400, f"{name} must be true or false, and not {text!r}.")
        return text == "true"

    def may(self, operation: str, kind: str, name: str) -> bool:
        """Whether the caller is allowed something."""
        return self.service.may(self.request, operation, kind, name)

    def require(self, operation: str, kind: str, name: str) -> None:
        """HttpProblem 40301 if the caller is not allowed it."""
        self.service.require(self.request, operation, kind, name)

    def answer(self, value: Any, status: int = 200) -> Response:
        """The value as the response."""
        return json_answer(self.request, value, status)

    async def answer_list(
        self, kind: str, self_url: str, rows: Sequence[RowT], make: Callable[[RowT], Mapping[str, Any]]
    ) -> Response:
        """A collection of the resources that `make` makes; of many, in a thread, one after the other."""
        if len(rows) <= _ROWS_INLINE_MAX:
            return self.answer(collection(kind, self_url, [make(each) for each in rows]))
        head = orjson.dumps(collection(kind, self_url, []))
        body = await asyncio.to_thread(_list_body, head, rows, make)
        return bytes_answer(body, media_type(self.request))

    @staticmethod
    def done(status: int = 204, location: str | None = None) -> Response:
        """A response without a body."""
        return Response(status_code=status, headers={"Location": location} if location else None)


def _list_body(head: bytes, rows: Sequence[RowT], make: Callable[[RowT], Mapping[str, Any]]) -> bytes:
    return head[:-2] + b",".join(compact_json(make(each)) for each in rows) + head[-2:]
