"""`/burrow/admin` and `/v3/...`: Burrow's interface.

The store's lock may be held for a while, so it is asked on a worker thread.

Every answer is `{"error": bool, "message": text, ..., "request": {"url", "host"}}`. `/status` has the
partitions from WARN on, `/lag` all.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from moldau.services.http.answers import bytes_answer
from moldau.services.http.application import path_value
from moldau.services.http.bodies import read_bytes
from moldau.services.http.destructive import check_delete
from moldau.services.lag.routes.configuration import ConfigRoutes
from moldau.services.lag.routes.documents import detail_document, group_document, not_found_document
from moldau.services.lag.store import ClusterStore

_LEVELS = {
    "debug": logging.DEBUG,
    "trace": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}


class Burrow:
    """The routes over the clusters' stores."""

    def __init__(
        self,
        stores: Mapping[str, ClusterStore],
        is_ready: Callable[[], bool],
        config: ConfigRoutes,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stores, self._is_ready, self._config, self._clock = stores, is_ready, config, clock
        self._host = socket.gethostname()

    def routes(self) -> Sequence[BaseRoute]:
        """All of them."""
        group = "/v3/kafka/{cluster}/consumer/{group}"
        topic = "/v3/kafka/{cluster}/topic/{topic}"
        rows: list[tuple[str, Callable[..., Any], str]] = [
            ("/burrow/admin", self.admin, "GET"),
            ("/burrow/admin/ready", self.ready, "GET"),
            ("/v3/kafka", self.clusters, "GET"),
            ("/v3/kafka/{cluster}", self.cluster, "GET"),
            ("/v3/kafka/{cluster}/topic", self.topics, "GET"),
            (topic, self.topic, "GET"),
            (f"{topic}/consumers", self.consumers_of, "GET"),
            ("/v3/kafka/{cluster}/consumer", self.consumers, "GET"),
            (group, self.consumer, "GET"),
            (group, self.delete, "DELETE"),
            (f"{group}/status", self.status, "GET"),
            (f"{group}/lag", self.lag, "GET"),
            (f"{group}/topic/{{topic}}", self.delete_topic, "DELETE"),
            ("/v3/admin/loglevel", self.log_level, "GET"),
            ("/v3/admin/loglevel", self.set_log_level, "POST"),
            ("/v3/config", self.config, "GET"),
            ("/v3/config/{kind}", self.config_kind, "GET"),
            ("/v3/config/{kind}/{name}", self.config_entry, "GET"),
        ]
        return [Route(path, endpoint, methods=[method]) for path, endpoint, method in rows]

    async def admin(self, request: Request) -> Response:
        """Alive."""
        return PlainTextResponse("GOOD")

    async def ready(self, request: Request) -> Response:
        """Whether every cluster has been read once."""
        return PlainTextResponse("READY") if self._is_ready() else PlainTextResponse("STARTING", 503)

    async def clusters(self, request: Request) -> Response:
        """Names."""
        return self._answer(request, "cluster list returned", {"clusters": sorted(self._stores)})

    async def cluster(self, request: Request) -> Response:
        """How it is reached."""
        module = self._config.entry("cluster", path_value(request, "cluster"))
        if module is None:
            return self._problem(request, 404, "cluster module not found")
        return self._answer(request, "cluster module detail returned", {"module": module})

    async def topics(self, request: Request) -> Response:
        """Names."""
        store = self._store(request)
        if store is None:
            return self._problem(request, 404, "cluster not found")
        return self._answer(request, "topic list returned", {"topics": await run_in_threadpool(store.topics)})

    async def topic(self, request: Request) -> Response:
        """The end offset of each partition."""
        store = self._store(request)
        topic = path_value(request, "topic")
        ends = await run_in_threadpool(store.ends_of, topic) if store is not None else None
        if ends is None:
            return self._problem(request, 404, "cluster or topic not found")
        return self._answer(request, "topic offsets returned", {"offsets": ends})

    async def consumers_of(self, request: Request) -> Response:
        """The groups that read a topic."""
        store, topic = self._store(request), path_value(request, "topic")
        if store is None or await run_in_threadpool(store.ends_of, topic) is None:
            return self._problem(request, 404, "cluster or topic not found")
        found = {"consumers": await run_in_threadpool(store.consumers_of, topic)}
        return self._answer(request, "consumers of topic returned", found)

    async def consumers(self, request: Request) -> Response:
        """Names."""
        store = self._store(request)
        if store is None:
            return self._problem(request, 404, "cluster not found")
        return self._answer(
            request, "consumer list returned", {"consumers": await run_in_threadpool(store.groups)}
        )

    async def consumer(self, request: Request) -> Response:
        """The windows of a group."""
        store = self._store(request)
        group = path_value(request, "group")

        def made() -> dict[str, Any] | None:
            found = store.details(group) if store is not None else None
            if found is None:
                return None
            return {topic: detail_document(partitions) for topic, partitions in found.items()}

        topics = await run_in_threadpool(made)
        if topics is None:
            return self._problem(request, 404, "cluster or consumer not found")
        return self._answer(request, "consumer detail returned", {"topics": topics})

    async def status(self, request: Request) -> Response:
        """A group's verdict, with the partitions that are not well."""
        return await self._status(request, all_partitions=False)

    async def lag(self, request: Request) -> Response:
        """A group's verdict, with all partitions."""
        return await self._status(request, all_partitions=True)

    async def _status(self, request: Request, *, all_partitions: bool) -> Response:
        cluster, group = path_value(request, "cluster"), path_value(request, "group")
        store, now_ms = self._stores.get(cluster), int(self._clock() * 1000)

        def judged() -> dict[str, Any] | None:
            status = store.status(group, now_ms) if store is not None else None
            return None if status is None else group_document(status, now_ms, all_partitions=all_partitions)

        document = await run_in_threadpool(judged)
        found = {"status": document or not_found_document(cluster, group)}
        return self._answer(request, "consumer status returned", found, 200 if document else 404)

    async def delete(self, request: Request) -> Response:
        """Forget a group here; the cluster keeps it."""
        return await self._delete(request, None)

    async def delete_topic(self, request: Request) -> Response:
        """Forget a topic of a group here."""
        return await self._delete(request, path_value(request, "topic"))

    async def _delete(self, request: Request, topic: str | None) -> Response:
        check_delete(request)
        store = self._store(request)
        if store is None:
            return self._problem(request, 404, "cluster not found")
        await run_in_threadpool(store.delete_group, path_value(request, "group"), topic)
        return self._answer(request, "consumer group removed", {})

    async def log_level(self, request: Request) -> Response:
        """Of this service."""
        level = logging.getLevelName(logging.getLogger("moldau").getEffectiveLevel()).lower()
        return self._answer(request, "log level returned", {"level": level})

    async def set_log_level(self, request: Request) -> Response:
        """Of this service."""
        try:
            body = orjson.loads(await read_bytes(request))
            wanted = str(body["level"]).lower()
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return self._problem(request, 400, "could not decode message body")
        if wanted not in _LEVELS:
            return self._problem(request, 404, "unknown log level")
        logging.getLogger("moldau").setLevel(_LEVELS[wanted])
        return self._answer(request, "set log level", {})

    async def config(self, request: Request) -> Response:
        """Everything but secrets."""
        return self._answer(request, "main config returned", self._config.main())

    async def config_kind(self, request: Request) -> Response:
        """The names of one kind."""
        kind = path_value(request, "kind")
        names = self._config.names(kind)
        if names is None:
            return self._problem(request, 404, "invalid request type")
        found = {"coordinator": kind, "modules": names}
        return self._answer(request, "module list returned", found)

    async def config_entry(self, request: Request) -> Response:
        """One of them."""
        kind = path_value(request, "kind")
        module = self._config.entry(kind, path_value(request, "name"))
        if module is None:
            return self._problem(request, 404, f"{kind} module not found")
        return self._answer(request, f"{kind} module detail returned", {"module": module})

    def _store(self, request: Request) -> ClusterStore | None:
        return self._stores.get(path_value(request, "cluster"))

    def _answer(
        self, request: Request, message: str, found: Mapping[str, Any], status: int = 200
    ) -> Response:
        about = {"url": request.url.path, "host": self._host}
        body = orjson.dumps({"error": False, "message": message, **found, "request": about})
        return bytes_answer(body, "application/json", status)

    def _problem(self, request: Request, status: int, message: str) -> Response:
        about = {"url": request.url.path, "host": self._host}
        body = orjson.dumps({"error": True, "message": message, "request": about})
        return bytes_answer(body, "application/json", status)
