"""/admin/loggers (KIP-495, KIP-976): levels of loggers, in Kafka's names of levels.

TRACE 5   DEBUG 10   INFO 20   WARN 30   ERROR 40   FATAL 50   OFF 100   ALL 1
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.services.connect.routes.calls import Calls, json_body
from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Operation

LEVELS: Mapping[str, int] = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": 100,
}
_NAMES = {number: name for name, number in LEVELS.items()}
_ROOT = "root"


class Loggers:
    """The loggers of this process, and when a level was last set here."""

    def __init__(self) -> None:
        self._changed_ms: dict[str, int] = {}

    def names(self) -> list[str]:
        """Those that have a level of their own, and the root."""
        known = logging.root.manager.loggerDict
        return sorted(
            [name for name, each in known.items() if isinstance(each, logging.Logger) and each.level]
            + [_ROOT]
        )

    def level(self, name: str) -> dict[str, Any]:
        """A logger's level, as it is effective."""
        number = self._logger(name).getEffectiveLevel()
        text = _NAMES.get(number) or logging.getLevelName(number)
        return {"level": text, "last_modified": self._changed_ms.get(name)}

    def set(self, name: str, level: str) -> list[str]:
        """Of a logger and all below it; which they were."""
        changed = [name]
        self._logger(name).setLevel(LEVELS[level])
        for other, each in logging.root.manager.loggerDict.items():
            below = name == _ROOT or other.startswith(f"{name}.")
            if below and isinstance(each, logging.Logger) and each.level and other != name:
                each.setLevel(LEVELS[level])
                changed.append(other)
        now_ms = time.time_ns() // 1_000_000
        self._changed_ms.update(dict.fromkeys(changed, now_ms))
        return sorted(changed)

    def exists(self, name: str) -> bool:
        """Whether something logs under it."""
        return name == _ROOT or name in logging.root.manager.loggerDict

    @staticmethod
    def _logger(name: str) -> logging.Logger:
        return logging.getLogger() if name == _ROOT else logging.getLogger(name)


class LoggerRoutes:
    """This worker's loggers, or with scope=cluster all workers'."""

    def __init__(self, calls: Calls, loggers: Loggers) -> None:
        self._calls = calls
        self._loggers = loggers

    def routes(self) -> Sequence[BaseRoute]:
        """Of this file."""
        return [
            Route("/admin/loggers", self.listed, methods=["GET"]),
            Route("/admin/loggers/{logger}", self.level, methods=["GET"]),
            Route("/admin/loggers/{logger}", self.change, methods=["PUT"]),
        ]

    async def listed(self, request: Request) -> Response:
        """All that have a level."""
        self._calls.check_cluster(request, Operation.READ)
        return json_answer(request, {name: self._loggers.level(name) for name in self._loggers.names()})

    async def level(self, request: Request) -> Response:
        """One."""
        self._calls.check_cluster(request, Operation.READ)
        name = path_value(request, "logger")
        if not self._loggers.exists(name):
            raise HttpProblem(404, f"Logger {name} not found.")
        return json_answer(request, self._loggers.level(name))

    async def change(self, request: Request) -> Response:
        """{"level": "DEBUG"}."""
        self._calls.check_cluster(request, Operation.CONFIGURE)
        name = path_value(request, "logger")
        given, _ = await json_body(request)
        level = given.get("level") if isinstance(given, dict) else None
        if level is None:
            raise HttpProblem(400, "Desired 'level' parameter was not specified in request.")
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise HttpProblem(404, f"invalid log level '{level}'.")
        scope = request.query_params.get("scope", "worker").lower()
        if scope == "cluster":
            await self._calls.herder.set_cluster_logger(name, level.upper())
            return Response(status_code=204)
        if scope != "worker":
            raise HttpProblem(400, f"scope is {scope!r}, and may be worker or cluster")
        return json_answer(request, self._loggers.set(name, level.upper()))
