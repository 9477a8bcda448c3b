"""What v3's operations need, and the routes that lead to them.

A request's way: find the operation; is it served at all (api.endpoints.*), are there permits for it
(rate.limit.*), may the caller do it, is the cluster's id the right one; then the handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import describe_cluster
from moldau.services.http.application import path_value
from moldau.services.http.context import context_of
from moldau.services.http.destructive import check_delete
from moldau.services.http.media_types import essence
from moldau.services.http.problems import HttpProblem, plain_problem
from moldau.services.http.rights import Kind, Rights
from moldau.services.http.rights import Operation as Act
from moldau.services.rest.request_limits import ProduceLimits, RequestLimits, ServedOperations
from moldau.services.rest.settings import RestSettings
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import http_problem, not_found
from moldau.services.rest.v3.operations import Operation
from moldau.services.rest.v3.resource_names import resource_name
from moldau.services.rest.v3.resources import Links

if TYPE_CHECKING:
    from moldau.services.kafka.admin_threads import KafkaAdmin
    from moldau.services.kafka.producing import Producers
    from moldau.services.kafka.reading import Readers
    from moldau.services.rest.schema_choice import Schemas

CLUSTER = "kafka"
"""The cluster's name in a file of rights."""
RECORDS_PATH = "/v3/clusters/{cluster_id}/topics/{topic_name}/records"
_LIMITED_BY_RECORD = ("produceRecord", "produceRecordsBatch")


class Service:
    """Version 3 on one cluster."""

    def __init__(
        self,
        admin: KafkaAdmin,
        producers: Producers,
        readers: Readers,
        schemas: Schemas,
        *,
        settings: RestSettings,
        served: ServedOperations,
        limits: RequestLimits,
        rights: Rights | None = None,
        advertised_url: str = "",
        crn_authority: str = "",
    ) -> None:
        """`advertised_url`: how clients reach the proxy; empty: as the Host header of a request says."""
        self.settings = settings
        self.produce_limits = ProduceLimits(settings)
        self.admin = admin
        self.producers = producers
        self.readers = readers
        self.schemas = schemas
        self.rights = rights or Rights.all()
        self._advertised_url = advertised_url.rstrip("/")
        self._crn_authority = crn_authority
        self._served = served
        self._limits = limits
        self._cluster_id = ""

    def routes(self) -> list[Route]:
        """The routes; of two that fit, that with fewer variable parts comes first (topics/-/configs)."""
        from moldau.services.rest.v3 import routes  # registers all operations

        by_path: dict[str, dict[str, Operation]] = {}
        for each in routes.operations():
            by_path.setdefault(each.path, {})[each.method] = each
        return [
            Route("/v3" + path, self._endpoint(by_path[path]), methods=sorted(by_path[path]))
            for path in sorted(by_path, key=lambda path: path.count("{"))
        ]

    def _endpoint(self, by_method: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            method = "GET" if request.method == "HEAD" else request.method
            return await self._answer(by_method[method], request)

        return endpoint

    async def _answer(self, found: Operation, request: Request) -> Response:
        names = (resource_name(found),)
        if not self._served.is_served(names):
            raise plain_problem(404 if found.method == "GET" else 405)
        if found.operation_id not in _LIMITED_BY_RECORD:
            await self._limits.admit(names)
        path = {name: path_value(request, name) for name in request.path_params}
        call = Call(self, request, path, Links(self._base_url(request), self._crn_authority))
        if found.right is not None:
            self._check_right(found, call)
        if found.body is not None:
            _check_media_type(request)
        if found.method == "DELETE":
            check_delete(request, [each.name for each in found.query])
        if "cluster_id" in path:
            await self._check_cluster(path["cluster_id"])
        return await found.handler(call)

    def _base_url(self, request: Request) -> str:
        return self._advertised_url or f"{request.url.scheme}://{request.url.netloc}"

    def _check_right(self, found: Operation, call: Call) -> None:
        assert found.right is not None
        operation, kind, named_by = found.right.operation, found.right.kind, found.right.named_by
        if named_by is not None:
            call.require(operation, kind, call.path[named_by])
        elif kind == Kind.CLUSTER:
            call.require(operation, kind, CLUSTER)

    async def _check_cluster(self, cluster_id: str) -> None:
        if not self._cluster_id:  # it never changes
            try:
                self._cluster_id = (await self.admin.call(describe_cluster)).cluster_id
            except KafkaProblem as problem:
                raise http_problem(problem) from None
        if cluster_id != self._cluster_id:
            raise not_found(f"Cluster {cluster_id} cannot be found.")

    def may(self, request: Request, operation: str, kind: str, name: str) -> bool:
        """Whether the caller is allowed something."""
        return self.rights.may(context_of(request).principal, Act(operation), Kind(kind), name)

    def require(self, request: Request, operation: str, kind: str, name: str) -> None:
        """HttpProblem 40301 if the caller is not allowed it."""
        self.rights.check(context_of(request).principal, Act(operation), Kind(kind), name)


def _check_media_type(request: Request) -> None:
    """HttpProblem 415 for a body that is not said to be JSON.

    Also where nothing is said: a page of another site can have a browser send such a body, but no JSON, here.
    """
    given = essence(request.headers.get("content-type", ""))
    if given != "application/json" and not given.endswith("+json"):
        raise HttpProblem(415, "HTTP 415 Unsupported Media Type: write Content-Type: application/json")
