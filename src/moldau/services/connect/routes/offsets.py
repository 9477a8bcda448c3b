"""…/offsets (KIP-875): where a connector stands, and, while it is stopped, where it shall begin.

    source   {"partition": {"filename": "a"}, "offset": {"position": 30}}       as the connector says
    sink     {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 812}}

An offset of null is forgotten. Resetting all is a request of its own (DELETE): an empty list changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.services.connect.herder.interface import OffsetRow
from moldau.services.connect.routes.calls import Calls, json_body
from moldau.services.http.answers import json_answer
from moldau.services.http.bodies import read_bytes
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Operation


class OffsetRoutes:
    """Needs the herder alone."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> Sequence[BaseRoute]:
        """Of this file."""
        path = "/connectors/{name}/offsets"
        return [
            Route(path, self.listed, methods=["GET"]),
            Route(path, self.alter, methods=["PATCH"]),
            Route(path, self.reset, methods=["DELETE"]),
        ]

    async def listed(self, request: Request) -> Response:
        """Where it stands."""
        name = self._calls.connector(request, Operation.READ)
        rows = await self._calls.herder.offsets(name)
        return json_answer(
            request, {"offsets": [{"partition": row.partition, "offset": row.offset} for row in rows]}
        )

    async def alter(self, request: Request) -> Response:
        """Set some."""
        name = self._calls.connector(request, Operation.WRITE)
        given, body = await json_body(request)
        rows = _rows(given)

        async def act() -> Response:
            return json_answer(request, {"message": await self._calls.herder.alter_offsets(name, rows)})

        return await self._calls.on_leader(request, body, act)

    async def reset(self, request: Request) -> Response:
        """Forget all."""
        name = self._calls.connector(request, Operation.DELETE)
        body = await read_bytes(request)

        async def act() -> Response:
            return json_answer(request, {"message": await self._calls.herder.reset_offsets(name)})

        return await self._calls.on_leader(request, body, act)


def _rows(given: Any) -> list[OffsetRow]:
    rows = given.get("offsets") if isinstance(given, dict) else None
    if not isinstance(rows, list) or not rows:
        raise HttpProblem(400, "Partitions / offsets need to be provided for an alter offsets request")
    found = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or not {"partition", "offset"} == row.keys():
            raise HttpProblem(400, f'offsets[{number}] is not {{"partition": …, "offset": …}}')
        partition, offset = row["partition"], row["offset"]
        if not isinstance(partition, dict) or not (offset is None or isinstance(offset, dict)):
            raise HttpProblem(
                400, f"offsets[{number}]: partition is a JSON object, and offset one, or null to forget it"
            )
        found.append(OffsetRow(partition, offset))
    return found
