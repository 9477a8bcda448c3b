"""Who this worker is and how it is; and what workers ask one another, signed with the group's key
(KIP-507)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.services.connect.herder.interface import Signature
from moldau.services.connect.routes.calls import Calls, json_body, texts
from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value, principal_of
from moldau.services.http.bodies import read_bytes
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

SIGNATURE = "X-Connect-Authorization"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"
_STATUS = {"healthy": 200, "starting": 503}


class WorkerRoutes:
    """Needs the herder alone."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> Sequence[BaseRoute]:
        """Of this file."""
        return [
            Route("/", self.root, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/connectors/{name}/tasks", self.put_tasks, methods=["POST"]),
            Route("/connectors/{name}/fence", self.fence, methods=["PUT"]),
        ]

    async def root(self, request: Request) -> Response:
        """Version, commit, cluster."""
        info = self._calls.herder.server_info()
        return json_answer(
            request,
            {"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id},
        )

    async def health(self, request: Request) -> Response:
        """200, 503 while it starts, 500 where it is stuck (KIP-1017); which connectors have failed, and
        why."""
        rights, principal = self._calls.rights, principal_of(request)
        health = self._calls.herder.health(rights.filter(principal, Operation.READ, Kind.CONNECTOR))
        body = {"status": health.status, "message": health.message, "failed": dict(health.failed)}
        return json_answer(request, body, _STATUS.get(health.status, 500))

    async def put_tasks(self, request: Request) -> Response:
        """From a worker: its connector wants these tasks."""
        name = path_value(request, "name")
        self._calls.check_internal(request, name)
        given, body = await json_body(request)
        if not isinstance(given, list):
            raise HttpProblem(400, "the request's body is not a JSON array")
        configs = [texts(each, f"configuration {number}") for number, each in enumerate(given)]
        signature = _signature(request, body)

        async def act() -> Response:
            await self._calls.herder.put_task_configs(name, configs, signature)
            return Response(status_code=204)

        return await self._calls.on_leader(request, body, act)

    async def fence(self, request: Request) -> Response:
        """From a worker: a source's older tasks shall not write any more."""
        name = path_value(request, "name")
        self._calls.check_internal(request, name)
        body = await read_bytes(request)
        signature = _signature(request, body)

        async def act() -> Response:
            await self._calls.herder.fence_zombies(name, signature)
            return Response(status_code=204)

        return await self._calls.on_leader(request, body, act)


def _signature(request: Request, body: bytes) -> Signature:
    text = request.headers.get(SIGNATURE)
    try:
        value = None if text is None else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        value = None
    return Signature(body, request.headers.get(ALGORITHM), value)
