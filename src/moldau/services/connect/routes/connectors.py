"""/connectors: which there are, what they are, and how they come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.services.connect.herder.interface import ConnectorInfo
from moldau.services.connect.routes.bodies import info_json, status_json
from moldau.services.connect.routes.calls import Calls, changes, json_body, texts
from moldau.services.connect.runtime.interface import State
from moldau.services.http.answers import json_answer
from moldau.services.http.application import principal_of
from moldau.services.http.bodies import read_bytes
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

_FIRST_STATES = (State.RUNNING, State.PAUSED, State.STOPPED)
_FIELDS = frozenset({"name", "config", "initial_state"})


class ConnectorRoutes:
    """Needs the herder alone."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> Sequence[BaseRoute]:
        """Of this file."""
        return [
            Route("/connectors", self.listed, methods=["GET"]),
            Route("/connectors", self.create, methods=["POST"]),
            Route("/connectors/{name}", self.info, methods=["GET"]),
            Route("/connectors/{name}", self.delete, methods=["DELETE"]),
            Route("/connectors/{name}/config", self.config, methods=["GET"]),
            Route("/connectors/{name}/config", self.put, methods=["PUT"]),
            Route("/connectors/{name}/config", self.patch, methods=["PATCH"]),
            Route("/connectors/{name}/tasks", self.tasks, methods=["GET"]),
        ]

    async def listed(self, request: Request) -> Response:
        """The names; with expand=info, expand=status what each is and how."""
        seen = self._calls.rights.filter(principal_of(request), Operation.READ, Kind.CONNECTOR)
        names = [name for name in await self._calls.herder.connectors() if seen(name)]
        expansions = request.query_params.getlist("expand")
        if not expansions:
            return json_answer(request, names)
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            try:
                row: dict[str, Any] = {}
                if "info" in expansions:
                    row["info"] = info_json(await self._calls.herder.info(name))
                if "status" in expansions:
                    row["status"] = status_json(await self._calls.herder.status(name))
            except Exception as gone:
                if getattr(gone, "status", None) != 404:
                    raise
                continue  # removed since it was listed
            found[name] = row
        return json_answer(request, found)

    async def create(self, request: Request) -> Response:
        """{name, config[, initial_state]}: 201, 400, 409."""
        given, body = await json_body(request)
        if not isinstance(given, dict):
            raise HttpProblem(400, "the request's body is not a JSON object")
        unknown = sorted(given.keys() - _FIELDS)
        if unknown:
            raise HttpProblem(
                400, f"Unrecognized field {unknown[0]!r}: a connector has {', '.join(sorted(_FIELDS))}"
            )
        config = texts(given.get("config"), "config")
        name = _name(given.get("name"), config)
        target = _first_state(given.get("initial_state"))
        self._calls.check(request, Operation.WRITE, name)
        config = _named(config, name)

        async def act() -> Response:
            await self._calls.require_valid(config)
            _, info = await self._calls.herder.put_config(name, config, target, may_replace=False)
            return self._made(request, info)

        return await self._calls.on_leader(request, body, act)

    async def info(self, request: Request) -> Response:
        """What it is."""
        name = self._calls.connector(request, Operation.READ)
        return json_answer(request, info_json(await self._calls.herder.info(name)))

    async def config(self, request: Request) -> Response:
        """Its configuration, references to secrets as they were given."""
        name = self._calls.connector(request, Operation.READ)
        return json_answer(request, dict((await self._calls.herder.info(name)).config))

    async def tasks(self, request: Request) -> Response:
        """Its tasks with their configurations."""
        name = self._calls.connector(request, Operation.READ)
        found = [
            {"id": {"connector": task.connector, "task": task.task}, "config": dict(config)}
            for task, config in await self._calls.herder.task_configs(name)
        ]
        return json_answer(request, found)

    async def put(self, request: Request) -> Response:
        """Replace its configuration (200), or make it (201)."""
        name = self._calls.connector(request, Operation.WRITE)
        given, body = await json_body(request)
        config = _named(texts(given, "the request's body"), name)

        async def act() -> Response:
            return await self._replace(request, name, config)

        return await self._calls.on_leader(request, body, act)

    async def patch(self, request: Request) -> Response:
        """Change some settings; null removes one (KIP-477)."""
        name = self._calls.connector(request, Operation.WRITE)
        given, body = await json_body(request)
        patch = changes(given, "the request's body")

        async def act() -> Response:
            changed = await self._calls.herder.patch_config(name, patch)
            return await self._replace(request, name, _named(dict(changed), name))

        return await self._calls.on_leader(request, body, act)

    async def delete(self, request: Request) -> Response:
        """Remove it: 204."""
        name = self._calls.connector(request, Operation.DELETE)
        body = await read_bytes(request)

        async def act() -> Response:
            await self._calls.herder.delete(name)
            return Response(status_code=204)

        return await self._calls.on_leader(request, body, act)

    async def _replace(self, request: Request, name: str, config: Mapping[str, str]) -> Response:
        await self._calls.require_valid(config)
        made, info = await self._calls.herder.put_config(name, config, None, may_replace=True)
        return self._made(request, info) if made else json_answer(request, info_json(info))

    @staticmethod
    def _made(request: Request, info: ConnectorInfo) -> Response:
        answer = json_answer(request, info_json(info), 201)
        answer.headers["Location"] = f"/connectors/{quote(info.name, safe='')}"
        return answer


def _name(given: Any, config: Mapping[str, str]) -> str:
    if given is not None and not isinstance(given, str):
        raise HttpProblem(400, "name is not a text")
    name = (given or "").strip() or config.get("name", "").strip()
    if not name:
        raise HttpProblem(400, "the connector has no name")
    return name


def _named(config: dict[str, str], name: str) -> dict[str, str]:
    """The configuration with its name. HttpProblem 400 if it has another one."""
    inside = config.get("name")
    if inside is not None and inside != name:
        raise HttpProblem(
            400, f"Connector name configuration ({inside}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def _first_state(given: Any) -> State | None:
    if given is None:
        return None
    wanted = next((state for state in _FIRST_STATES if state.value == given), None)
    if wanted is None:
        choices = ", ".join(state.value for state in _FIRST_STATES)
        raise HttpProblem(400, f"initial_state is {given!r}, and may be {choices}")
    return wanted
