"""/connector-plugins: what there is, its settings, and whether a configuration is right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.connect.errors import ConnectError
from moldau.connect.finding import plugin_named
from moldau.connect.plugins import Kind
from moldau.services.connect.routes.calls import Calls, flag, json_body, texts
from moldau.services.connect.validation.plugins import CONNECTORS, plugin_config, plugins
from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Operation


class PluginRoutes:
    """Needs no herder: a configuration is checked by whoever is asked."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> Sequence[BaseRoute]:
        """Of this file."""
        return [
            Route("/connector-plugins", self.listed, methods=["GET"]),
            Route("/connector-plugins/{plugin}/config", self.config, methods=["GET"]),
            Route("/connector-plugins/{plugin}/config/validate", self.validate, methods=["PUT"]),
        ]

    async def listed(self, request: Request) -> Response:
        """Connectors; with connectorsOnly=false converters, transforms and predicates too (KIP-769)."""
        kinds: Sequence[Kind] = CONNECTORS if flag(request, "connectorsOnly", True) else tuple(Kind)
        found = await asyncio.to_thread(plugins, kinds)
        return json_answer(request, [each.as_json() for each in found])

    async def config(self, request: Request) -> Response:
        """The settings of one."""
        name = path_value(request, "plugin")
        try:
            return json_answer(request, await asyncio.to_thread(plugin_config, name))
        except ConnectError as problem:
            raise HttpProblem(404, f"Unknown plugin {name}: {problem}") from None

    async def validate(self, request: Request) -> Response:
        """Whether a configuration is right; 200 also where it is not.

        The check fills in secrets and may ask other systems with them: who may not write a connector of that
        name may not have it done.
        """
        name = path_value(request, "plugin")
        given, _ = await json_body(request)
        config = texts(given, "the request's body")
        self._calls.check(request, Operation.WRITE, config.get("name", "").strip())
        included = config.get("connector.class", "").strip()
        if not included:
            raise HttpProblem(400, "Connector config contains no connector type")
        if not _same(name, included):
            raise HttpProblem(400, f"Included connector type {included} does not match request type {name}")
        infos = await self._calls.validated(config)
        return json_answer(request, await asyncio.to_thread(infos.as_json))  # a block for each alias given


def _same(one: str, other: str) -> bool:
    """Whether two names select the same connector: Kafka compares their last parts, here they may be
    other names."""
    if one == other or _last(other).endswith(_last(one)):
        return True
    row = plugin_named(CONNECTORS, one)
    return row is not None and row == plugin_named(CONNECTORS, other)


def _last(name: str) -> str:
    return name.rpartition(".")[2].removesuffix("Connector")
