"""What the requests of v2 need, from the parts that both versions share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import Topic, describe_topics
from moldau.client.cluster import Cluster
from moldau.services.http.context import context_of
from moldau.services.http.rights import Kind, Operation, Rights
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.rest.request_limits import RequestLimits, ServedOperations
from moldau.services.rest.settings import RestSettings
from moldau.services.rest.v2.errors import request_problem
from moldau.services.rest.v2.instances import Instances

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from moldau.services.kafka.admin_threads import KafkaAdmin
    from moldau.services.kafka.producing import Producers
    from moldau.services.rest.schema_choice import Schemas

ResultT = TypeVar("ResultT")

_TOPICS_FRESH_SECONDS = 1.0


class V2Service:
    """Version 2 on one cluster."""

    def __init__(
        self,
        settings: RestSettings,
        consumer: Mapping[str, str],
        admin: KafkaAdmin,
        producers: Producers,
        schemas: Schemas,
        rights: Rights,
        served: ServedOperations,
        limits: RequestLimits,
        unsent: ByteBudget,
    ) -> None:
        """`consumer` are the settings of consumers (`RestConfiguration.client`); `unsent` counts what
        responses hold. CredentialsError."""
        self.settings = settings
        self.producers = producers
        self.schemas = schemas
        self.rights = rights
        self.served = served
        self.limits = limits
        self.instances = Instances(settings, consumer, schemas, unsent)
        self._admin = admin
        self._topics: asyncio.Future[list[Topic]] | None = None
        self._topics_asked_at = 0.0

    def routes(self) -> list[BaseRoute]:
        """All paths of v2."""
        from moldau.services.rest.v2.routes import routes

        return routes(self)

    async def ask(self, work: Callable[[Cluster], ResultT]) -> ResultT:
        """Call a function of kafka/admin/. HttpProblem."""
        try:
            return await self._admin.call(work)
        except KafkaProblem as problem:
            raise request_problem(problem) from None

    async def topics(self, *, newest: bool) -> list[Topic]:
        """All topics; unless the `newest` are wanted, as they were a second ago at most: many instances with
        patterns ask for them again and again. HttpProblem."""
        asked = self._topics
        if newest or asked is None or monotonic() - self._topics_asked_at > _TOPICS_FRESH_SECONDS:
            asked = self._topics = asyncio.ensure_future(self.ask(describe_topics))
            self._topics_asked_at = monotonic()
        return await asyncio.shield(asked)

    def require(self, request: Request, operation: Operation, kind: Kind, name: str) -> None:
        """HttpProblem 40301 if the caller may not do it."""
        self.rights.check(context_of(request).principal, operation, kind, name)

    async def close(self) -> None:
        """End all consumer instances."""
        await self.instances.close()
