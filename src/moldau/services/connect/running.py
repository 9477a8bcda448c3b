"""A worker, whole: stores, membership, runtime, REST interface, listeners.

    async with serve_connect(worker_configuration(texts)) as running: ...

Addresses are taken first, since other workers are told them; the REST interface answers while the worker
starts (`GET /health` is 503 then), and `running` is given when it belongs to its group.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp

from moldau.client.cluster import Cluster
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.options import tls_options
from moldau.services.connect.app import connect_application
from moldau.services.connect.group.alone import Alone
from moldau.services.connect.group.interface import Membership
from moldau.services.connect.group.member import Member
from moldau.services.connect.herder.cluster import KafkaSide
from moldau.services.connect.herder.facade import RestHerder
from moldau.services.connect.herder.instances import kind_of, started
from moldau.services.connect.herder.parts import Parts
from moldau.services.connect.herder.peer import HttpPeer
from moldau.services.connect.herder.secrets import Secrets
from moldau.services.connect.herder.worker import RuntimeListener, Worker
from moldau.services.connect.metrics import samples
from moldau.services.connect.outer import is_admin, limited, parse_headers, with_headers
from moldau.services.connect.routes.calls import WORKER
from moldau.services.connect.routes.loggers import LEVELS, Loggers
from moldau.services.connect.runtime.local import LocalRuntime
from moldau.services.connect.settings import DEFAULT_PORT, WorkerConfiguration, WorkerSettings
from moldau.services.connect.stores.alone import StandaloneStores
from moldau.services.connect.stores.file_offsets import FileOffsets
from moldau.services.connect.stores.interface import Stores
from moldau.services.connect.stores.kafka_log import KafkaLog
from moldau.services.connect.stores.shared import SharedStores
from moldau.services.connect.stores.topics import prepare_topic
from moldau.services.connect.validation.infos import Infos
from moldau.services.connect.validation.overrides import OverridePolicy
from moldau.services.connect.validation.validating import Given, validate
from moldau.services.http.application import Application, Gate
from moldau.services.http.assembly import gate_of, server_of
from moldau.services.http.context import Principal
from moldau.services.http.counters import Sample
from moldau.services.http.forwarding import Reach
from moldau.services.http.rights import Rights
from moldau.services.http.server import HttpServer, in_own_thread

log = logging.getLogger("moldau.connect")
Tls = Callable[[], ssl.SSLContext]
Connect = Callable[[], Cluster]

_EVERYWHERE = ("", "0.0.0.0", "::")
_CLIENT_ONLY = frozenset(
    ("acks", "enable.idempotence", "linger.ms", "batch.size", "compression.type", "group.id", "client.rack")
)


@dataclass(frozen=True, slots=True)
class Running:
    """A worker that belongs to its group."""

    worker: Worker
    herder: RestHerder
    application: Application
    server: HttpServer
    validate: Callable[[Mapping[str, str]], Infos]
    """What is right and wrong with a connector's settings; may ask other systems. ConnectError."""

    @property
    def url(self) -> str:
        """The first address of its REST interface."""
        return self.server.url


@asynccontextmanager
async def serve_connect(
    configuration: WorkerConfiguration, spark: Callable[[], Any] | None = None
) -> AsyncIterator[Running]:
    """A running worker; `spark` gives a Spark session when a connector wants that engine. SettingError,
    ListenError, TopicRefused, ClientError, LogFailed, TimeoutError."""
    settings = configuration.settings
    for warning in configuration.warnings:
        log.warning("%s", warning)
    # What can be wrong with files and settings is said before anything is started.
    gate, rights = gate_of(settings), Rights.from_file(settings.moldau_http_rights_file)
    headers = parse_headers(settings.response_http_headers_config)
    secrets = Secrets(configuration.texts, os.environ)
    tls = _client_tls(settings)
    holder: list[Application] = []

    async def application(scope: object, receive: object, send: object) -> None:
        await holder[0](scope, receive, send)  # type: ignore[arg-type]

    whole = with_headers(application, headers)
    servers = _servers(whole, settings)
    async with AsyncExitStack() as ends:
        for each in servers:
            each.bind()
            ends.callback(each.release)
        url = advertised_url(settings, servers[0].addresses)
        loggers = Loggers()
        worker, connect = worker_of(configuration, url, secrets, tls, loggers)
        ends.push_async_callback(in_own_thread, worker.close)
        herder = RestHerder(worker, settings, KafkaSide(connect).cluster_id)
        ends.callback(herder.close)
        runtime = LocalRuntime(_runtime_texts(configuration), RuntimeListener(worker), spark=spark)

        policy = OverridePolicy(
            settings.connector_client_config_override_policy,
            settings.connector_client_config_override_allowlist,
        )

        def checked(config: Mapping[str, str]) -> Infos:
            return validate(Given(config, secrets.filled(config)), policy)

        def metrics(may_see: Callable[[str], bool]) -> Iterable[Sample]:
            return samples(worker, herder.health(may_see), may_see) if worker.is_started else ()

        found = connect_application(
            herder,
            settings,
            resolve=secrets.filled,
            policy=policy,
            reach=Reach(10.0, 90.0, settings.moldau_http_body_bytes_max, tls),
            gate=WorkersPass(gate, worker),
            rights=rights,
            loggers=loggers,
            metrics=metrics,
        )
        holder.append(found)
        for each in servers:
            await each.start()
            ends.push_async_callback(each.stop)
        ends.callback(found.ending.set)
        await in_own_thread(lambda: worker.start(runtime))
        await in_own_thread(herder.learn_cluster_id)
        yield Running(worker, herder, found, servers[0], checked)
        found.ending.set()
        found.close()


def worker_of(
    configuration: WorkerConfiguration, url: str, secrets: Secrets, tls: Tls, loggers: Loggers
) -> tuple[Worker, Connect]:
    """A worker that has not started, and what makes a client of its cluster."""
    settings = configuration.settings

    def connect() -> Cluster:
        return Cluster(
            settings.bootstrap_servers, _cluster_options(configuration), known_elsewhere=_CLIENT_ONLY
        )

    stores: Stores
    membership: Membership
    if configuration.is_distributed:
        stores = SharedStores(configuration, connect)
        membership = Member(connect, settings, url, lambda: stores.configs().offset)
    else:
        stores, membership = _alone_stores(configuration, connect), Alone()
    peer = HttpPeer(settings, lambda: stores.configs().session_key, tls)
    parts = Parts(
        settings,
        urlsplit(url).netloc,
        stores,
        membership,
        KafkaSide(connect),
        secrets,
        kind_of,
        started,
        peer,
        lambda logger, level: _set_level(loggers, logger, level),
    )
    return Worker(parts), connect


def _cluster_options(configuration: WorkerConfiguration) -> dict[str, str]:
    options = configuration.client("admin")
    options.pop("bootstrap.servers", None)
    return options


def _set_level(loggers: Loggers, logger: str, level: str) -> None:
    if level.upper() in LEVELS:
        loggers.set(logger, level.upper())


def _runtime_texts(configuration: WorkerConfiguration) -> dict[str, str]:
    texts = {**configuration.texts, "bootstrap.servers": configuration.settings.bootstrap_servers}
    if not configuration.is_distributed:
        texts["group.id"] = alone_id(configuration.settings)
        texts["offset.storage.topic"] = alone_topic(configuration.settings)
        texts |= {"offset.storage.partitions": "1", "offset.storage.replication.factor": "-1"}
    return texts


def alone_id(settings: WorkerSettings) -> str:
    """Names a standalone worker among others of the cluster: by its file of offsets and its machine."""
    where = f"{socket.gethostname()}:{Path(settings.offset_storage_file_filename).absolute()}"
    return f"connect-standalone-{hashlib.sha256(where.encode()).hexdigest()[:8]}"


def alone_topic(settings: WorkerSettings) -> str:
    """The topic of a standalone worker's offsets."""
    return settings.offset_storage_topic or f"{alone_id(settings)}-offsets"


def _alone_stores(configuration: WorkerConfiguration, connect: Connect) -> StandaloneStores:
    settings = configuration.settings
    topic = alone_topic(settings)
    offsets = FileOffsets(
        Path(settings.offset_storage_file_filename), settings.offset_flush_interval_ms / 1000
    )
    offsets.attach(
        KafkaLog(topic, configuration.client, connect, offsets.replay, client_id=alone_id(settings))
    )

    def prepare() -> None:
        with connect() as cluster:
            configs = configuration.topic_settings("offset")
            prepare_topic(cluster, "offset.storage.topic", topic, 1, -1, configs)

    return StandaloneStores(offsets, prepare)


def _client_tls(settings: WorkerSettings) -> Tls:
    made: list[ssl.SSLContext] = []

    def tls() -> ssl.SSLContext:
        if not made:
            made.append(client_context(tls_options(settings.get_or_none)))
        return made[0]

    return tls


def _servers(app: ASGIApp, settings: WorkerSettings) -> list[HttpServer]:
    if settings.admin_listeners is None:
        return [server_of(app, settings, DEFAULT_PORT)]
    found = [server_of(limited(app, lambda path: not is_admin(path)), settings, DEFAULT_PORT)]
    if settings.admin_listeners:
        admin = settings.replace(listeners=settings.admin_listeners)
        found.append(server_of(limited(app, is_admin), admin, DEFAULT_PORT))
    return found


def advertised_url(settings: WorkerSettings, addresses: tuple[str, ...]) -> str:
    """How other workers reach this one; ends with a slash, as Kafka's workers write it."""
    scheme = settings.rest_advertised_listener.lower()
    chosen = next((each for each in addresses if each.startswith(f"{scheme}://")), addresses[0])
    parts = urlsplit(chosen)
    host = settings.rest_advertised_host_name or settings.host_name or parts.hostname or ""
    if host in _EVERYWHERE:
        host = socket.gethostname()
    host = f"[{host}]" if ":" in host else host
    port = settings.rest_advertised_port or parts.port or DEFAULT_PORT
    return f"{parts.scheme}://{host}:{port}/"


class WorkersPass:
    """Who asks. Requests between workers need no login where they are signed: that is checked instead."""

    def __init__(self, gate: Gate, worker: Worker) -> None:
        self._gate, self._worker = gate, worker

    @property
    def asks_everybody(self) -> bool:
        """See Gate."""
        return self._gate.asks_everybody

    async def principal_of(self, request: Request) -> Principal:
        """See Gate."""
        path = request.scope["path"]
        is_internal = path.startswith("/connectors/") and (
            (request.method == "POST" and path.endswith("/tasks") and path.count("/") == 3)
            or (request.method == "PUT" and path.endswith("/fence") and path.count("/") == 3)
        )
        if is_internal and self._worker.membership.signs_requests:
            return WORKER
        return await self._gate.principal_of(request)
