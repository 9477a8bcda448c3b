"""The root path, the registry's metadata and contexts; paths that clients only probe."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import moldau
from moldau.services.http.answers import json_answer
from moldau.services.http.application import path_value
from moldau.services.http.destructive import check_delete
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Operation
from moldau.services.registry.names import parse_context, qualify
from moldau.services.registry.routes.calls import Calls, both, paging

_ALL_METHODS = ("GET", "POST", "PUT", "DELETE")


class ServerRoutes:
    """The endpoints."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._service = calls.service

    def routes(self) -> Iterator[Route]:
        """Path by path."""
        yield Route("/", self.root, methods=["GET", "POST"])
        yield from both("/v1/metadata/id", self.cluster_id, "GET")
        yield from both("/v1/metadata/version", self.version, "GET")
        yield Route("/contexts", self.contexts, methods=["GET"])
        yield Route("/contexts/{context}", self.contexts, methods=["GET"])
        yield Route("/contexts/{context}", self.delete_context, methods=["DELETE"])
        yield from both("/exporters", self.nothing, "GET")
        for prefix in ("", "/contexts/{context}"):
            yield Route(prefix + "/dek-registry/{rest:path}", self.no_keys, methods=_ALL_METHODS)
        yield from both("/associations/resources/{namespace}/{name}", self.nothing, "GET")

    async def root(self, request: Request) -> Response:
        """GET, POST /: an empty object, by which clients see that a registry is there."""
        return json_answer(request, {})

    async def cluster_id(self, request: Request) -> Response:
        """GET /v1/metadata/id."""
        return json_answer(request, await self._calls.read(self._service.cluster_id))

    async def version(self, request: Request) -> Response:
        """GET /v1/metadata/version."""
        return json_answer(request, {"version": moldau.__version__, "commitId": "moldau"})

    async def contexts(self, request: Request) -> Response:
        """GET /contexts [contextPrefix, offset, limit]."""
        offset, limit = paging(request)
        prefix = request.query_params.get("contextPrefix", "")
        if "context" in request.path_params:
            prefix = parse_context(path_value(request, "context"))
        found = await self._calls.read(
            self._service.contexts,
            prefix=prefix,
            offset=offset,
            limit=limit,
            visible=self._calls.visible(request),
        )
        return json_answer(request, found)

    async def delete_context(self, request: Request) -> Response:
        """DELETE /contexts/{c}: only an empty one."""
        check_delete(request)
        context = parse_context(path_value(request, "context"))
        self._calls.check(request, Operation.CONFIGURE, qualify(context, "") or None)
        response = await self._calls.write(request, b"", lambda: self._service.delete_context(context))
        return Response(status_code=204) if response.status_code == 200 else response

    async def no_keys(self, request: Request) -> Response:
        """The registry of data encryption keys. HttpProblem 501: a 404 would have clients make a key."""
        raise HttpProblem(
            501, "This registry keeps no data encryption keys: rules of type ENCRYPT cannot be used with it."
        )

    async def nothing(self, request: Request) -> Response:
        """Exporters and associations: clients ask for them, and take an empty list for none."""
        return json_answer(request, [])
