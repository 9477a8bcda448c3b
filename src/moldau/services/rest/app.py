"""The REST proxy as one application: its Kafka clients, both API versions, its pages.

settings -> Parts (clients of Kafka, registry, rights) -> v2's and v3's routes, OpenAPI, page -> Application

async with rest_service(configuration) as application: ...     an ASGI application
async with serve_rest(configuration) as server: ...            on its listeners
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from starlette.routing import BaseRoute

from moldau.client.errors import ClientError
from moldau.common.credentials.errors import CredentialsError
from moldau.common.settings.rows import SettingError
from moldau.services.http.application import Application
from moldau.services.http.assembly import gate_of, server_of
from moldau.services.http.context import Principal
from moldau.services.http.counters import Sample
from moldau.services.http.media_types import JSON
from moldau.services.http.rights import Rights
from moldau.services.http.server import HttpServer
from moldau.services.kafka.admin_threads import KafkaAdmin
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.kafka.producing import Producers
from moldau.services.kafka.reading import Readers
from moldau.services.rest.cluster_probe import ClusterProbe
from moldau.services.rest.openapi.pages import page_routes
from moldau.services.rest.request_limits import RequestLimits, ServedOperations
from moldau.services.rest.schema_choice import Schemas
from moldau.services.rest.settings import DEFAULT_PORT, RestConfiguration, Role
from moldau.services.rest.v2.media_types import offered_media_types
from moldau.services.rest.v2.service import V2Service
from moldau.services.rest.v3.service import Service


@dataclass(frozen=True, slots=True)
class Parts:
    """What the versions share."""

    configuration: RestConfiguration
    admin: KafkaAdmin
    producers: Producers
    readers: Readers
    schemas: Schemas
    rights: Rights
    served: ServedOperations
    limits: RequestLimits
    v2: V2Service

    @classmethod
    def of(cls, configuration: RestConfiguration) -> Parts:
        """Connects to nothing yet. SettingError."""
        settings = configuration.settings
        consumer = configuration.client(Role.CONSUMER)
        rights = Rights.from_file(settings.moldau_http_rights_file)
        served = ServedOperations(settings.api_endpoints_allowlist, settings.api_endpoints_blocklist)
        limits = RequestLimits(settings)
        schemas = _schemas(configuration.registry())
        try:
            admin = KafkaAdmin(settings.bootstrap_servers, configuration.client(Role.ADMIN))
            unsent = ByteBudget(settings.moldau_rest_responses_bytes_max)
            readers = Readers(consumer, settings.moldau_rest_readers_max, unsent)
            producers = Producers(
                configuration.client(Role.PRODUCER), bytes_max=settings.moldau_rest_producing_bytes_max
            )
            v2 = V2Service(settings, consumer, admin, producers, schemas, rights, served, limits, unsent)
        except (ClientError, CredentialsError) as problem:
            raise SettingError("bootstrap.servers", str(problem)) from None
        except KafkaException as problem:
            why = f"a client's settings are wrong: {problem.args[0].str()}"
            raise SettingError("client.*", why) from None
        return cls(configuration, admin, producers, readers, schemas, rights, served, limits, v2)

    async def close(self) -> None:
        """End the clients."""
        self.schemas.close()  # first: its threads hold up all others
        await self.v2.close()
        await self.readers.close()
        await self.producers.close()
        self.admin.close()


def _schemas(settings: Mapping[str, str]) -> Schemas:
    if not settings:
        return Schemas(settings)
    from moldau.schemas.registry_client import RegistryError

    try:
        return Schemas(settings)
    except RegistryError as problem:
        raise SettingError("schema.registry.url", str(problem)) from None


@asynccontextmanager
async def rest_service(configuration: RestConfiguration) -> AsyncIterator[Application]:
    """The application; its clients of Kafka end with the context. SettingError."""
    parts = Parts.of(configuration)
    probe = ClusterProbe(parts.admin)
    try:
        yield _application(parts, probe)
    finally:
        await probe.close()
        await parts.close()


@asynccontextmanager
async def serve_rest(configuration: RestConfiguration) -> AsyncIterator[HttpServer]:
    """The proxy on its listeners. SettingError, ListenError."""
    async with rest_service(configuration) as application:
        server = server_of(application, configuration.settings, DEFAULT_PORT)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


def _application(parts: Parts, probe: ClusterProbe) -> Application:
    settings = parts.configuration.settings

    def described() -> Mapping[str, Any]:
        from moldau.services.rest.openapi.document import (
            served_document,  # as large as it is seldom asked for
        )

        return served_document(
            parts.served, v2_enabled=settings.api_v2_enable, v3_enabled=settings.api_v3_enable
        )

    routes: list[BaseRoute] = list(page_routes(described))
    if settings.api_v2_enable:
        routes += parts.v2.routes()  # first: routes are tried in turn, and v3 has many
    if settings.api_v3_enable:
        advertised = next(iter(settings.advertised_listeners), "")
        service = Service(
            parts.admin,
            parts.producers,
            parts.readers,
            parts.schemas,
            rights=parts.rights,
            advertised_url=advertised,
            crn_authority=settings.confluent_resource_name_authority,
            settings=settings,
            served=parts.served,
            limits=parts.limits,
        )
        routes += service.routes()

    def metrics(principal: Principal) -> list[Sample]:
        return _samples(parts)

    return Application(
        routes,
        settings,
        offered=lambda path: offered_media_types(path) or (JSON,),
        gate=gate_of(settings),
        health=probe.health,
        metrics=metrics,
        metrics_prefix="moldau_rest",
    )


def _samples(parts: Parts) -> list[Sample]:
    producers = parts.producers
    return [
        Sample(
            "moldau_rest_records_delivered_total",
            "Records that were written.",
            "counter",
            producers.records_delivered,
        ),
        Sample(
            "moldau_rest_records_failed_total",
            "Records that were not written.",
            "counter",
            producers.records_failed,
        ),
        Sample(
            "moldau_rest_producing_bytes",
            "Bytes of records that are on their way to Kafka.",
            "gauge",
            producers.budget.used_bytes,
        ),
        Sample(
            "moldau_rest_readers",
            "Clients that records are read for without a session.",
            "gauge",
            parts.readers.open_count,
        ),
        Sample(
            "moldau_rest_consumer_instances",
            "Consumer instances of v2.",
            "gauge",
            len(parts.v2.instances),
        ),
        Sample(
            "moldau_rest_unsent_bytes",
            "Bytes of records in responses that are not sent yet, and that live tails fetched ahead.",
            "gauge",
            parts.v2.instances.unsent.used_bytes,
        ),
    ]
