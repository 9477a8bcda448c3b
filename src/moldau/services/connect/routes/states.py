"""How connectors and tasks are, and changes of that: status, pause, resume, stop, restart; topics they
have used."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.services.connect.routes.bodies import placed_json, status_json
from moldau.services.connect.routes.calls import Calls, flag
from moldau.services.connect.runtime.interface import State, TaskId
from moldau.services.http.answers import json_answer
from moldau.services.http.application import Endpoint, path_value
from moldau.services.http.bodies import read_bytes
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Operation

_TASK_MAX = 2**31 - 1


class StateRoutes:
    """Needs the herder alone."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> Sequence[BaseRoute]:
        """Of this file."""
        return [
            Route("/connectors/{name}/status", self.status, methods=["GET"]),
            Route("/connectors/{name}/pause", self._target(State.PAUSED), methods=["PUT"]),
            Route("/connectors/{name}/resume", self._target(State.RUNNING), methods=["PUT"]),
            Route("/connectors/{name}/stop", self._target(State.STOPPED), methods=["PUT"]),
            Route("/connectors/{name}/restart", self.restart, methods=["POST"]),
            Route("/connectors/{name}/tasks/{task}/status", self.task_status, methods=["GET"]),
            Route("/connectors/{name}/tasks/{task}/restart", self.restart_task, methods=["POST"]),
            Route("/connectors/{name}/topics", self.topics, methods=["GET"]),
            Route("/connectors/{name}/topics/reset", self.reset_topics, methods=["PUT"]),
        ]

    async def status(self, request: Request) -> Response:
        """The connector and all its tasks."""
        name = self._calls.connector(request, Operation.READ)
        return json_answer(request, status_json(await self._calls.herder.status(name)))

    async def task_status(self, request: Request) -> Response:
        """One task."""
        name = self._calls.connector(request, Operation.READ)
        number = _task(request)
        found = (await self._calls.herder.status(name)).tasks.get(number)
        if found is None:
            raise HttpProblem(404, f"No status found for task {name}-{number}")
        return json_answer(request, {"id": number, **placed_json(found)})

    def _target(self, target: State) -> Endpoint:
        async def change(request: Request) -> Response:
            name = self._calls.connector(request, Operation.WRITE)
            body = await read_bytes(request)

            async def act() -> Response:
                await self._calls.herder.set_target(name, target)
                return Response(status_code=202)

            return await self._calls.on_leader(request, body, act)

        return change

    async def restart(self, request: Request) -> Response:
        """204 for the connector alone; with includeTasks or onlyFailed 202, and how it will be (KIP-745)."""
        name = self._calls.connector(request, Operation.WRITE)
        only_failed, include_tasks = flag(request, "onlyFailed"), flag(request, "includeTasks")
        body = await read_bytes(request)

        async def act() -> Response:
            if not only_failed and not include_tasks:
                await self._calls.herder.restart_connector(name)
                return Response(status_code=204)
            status = await self._calls.herder.restart(
                name, only_failed=only_failed, include_tasks=include_tasks
            )
            return json_answer(request, status_json(status), 202)

        return await self._calls.on_leader(request, body, act)

    async def restart_task(self, request: Request) -> Response:
        """204."""
        task = TaskId(self._calls.connector(request, Operation.WRITE), _task(request))
        body = await read_bytes(request)

        async def act() -> Response:
            await self._calls.herder.restart_task(task)
            return Response(status_code=204)

        return await self._calls.on_leader(request, body, act)

    async def topics(self, request: Request) -> Response:
        """Topics that it has used (KIP-558)."""
        name = self._calls.connector(request, Operation.READ)
        return json_answer(request, {name: {"topics": list(await self._calls.herder.active_topics(name))}})

    async def reset_topics(self, request: Request) -> Response:
        """Forget them."""
        name = self._calls.connector(request, Operation.WRITE)
        await self._calls.herder.reset_topics(name)
        return Response(status_code=202)


def _task(request: Request) -> int:
    text = path_value(request, "task")
    if not text.isascii() or not text.isdigit() or len(text) > 10 or int(text) > _TASK_MAX:
        raise HttpProblem(404, f"{text} is not the number of a task")
    return int(text)
