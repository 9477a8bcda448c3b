"""/compatibility: whether a schema could be registered, and with verbose=true what keeps it out."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value
from moldau.services.http.rights import Operation
from moldau.services.registry.routes.calls import Calls, both, flag, subject_of


class CompatibilityRoutes:
    """The endpoints."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> Iterator[Route]:
        """Path by path."""
        yield from both("/compatibility/subjects/{subject}/versions", self.check, "POST")
        yield from both("/compatibility/subjects/{subject}/versions/{version}", self.check, "POST")

    async def check(self, request: Request) -> Response:
        """POST /compatibility/subjects/{s}/versions[/{v}] [normalize, verbose]."""
        subject = subject_of(request)
        self._calls.check(request, Operation.READ, subject)
        body, schema = await self._calls.read_schema(request)
        self._calls.check_references(request, subject, schema)
        version = path_value(request, "version") if "version" in request.path_params else None
        with self._calls.at_work(body):
            found = await self._calls.compare(
                self._calls.service.compatibility,
                subject,
                version,
                schema,
                normalize=flag(request, "normalize"),
                verbose=flag(request, "verbose"),
            )
        return json_answer(request, found)
