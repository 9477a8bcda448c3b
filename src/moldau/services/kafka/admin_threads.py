"""Blocking requests to a cluster, off the event loop.

A few threads have a client each, since a client (`Cluster`) is not thread-safe. Calls beyond those that run
wait in a queue of bounded length; one that finds it full is refused, so that a cluster that hangs costs
bounded memory.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from moldau.client.admin.problem import KafkaProblem
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, RequestRefused, Retriable, UnknownTopic
from moldau.common.protocol.errors import ErrorCode

ResultT = TypeVar("ResultT")

THREADS = 4
WAITING_MAX = 512
PATIENCE_MS = 15_000
_LOCAL_SETTINGS = frozenset(
    {"acks", "enable.idempotence", "linger.ms", "batch.size", "compression.type", "group.id", "client.rack"}
)


class KafkaAdmin:
    """Calls functions of a `Cluster` in threads. Safe to use from one event loop."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, str] | None = None,
        *,
        threads: int = THREADS,
        waiting_max: int = WAITING_MAX,
    ) -> None:
        """`settings`: a client's, by the names of Java's or librdkafka. OptionError for a wrong one."""
        options = {"default.api.timeout.ms": str(PATIENCE_MS), **(settings or {})}
        options.pop("bootstrap.servers", None)
        self._template = Cluster(bootstrap_servers, options, known_elsewhere=_LOCAL_SETTINGS)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rest-admin")
        self._waiting_max = threads + waiting_max
        self._under_way = 0
        self._local = threading.local()
        self._clusters: list[Cluster] = []
        self._lock = threading.Lock()

    @property
    def options(self) -> Any:
        """The client's options as they were understood."""
        return self._template.options

    async def call(self, work: Callable[[Cluster], ResultT]) -> ResultT:
        """Return `work(cluster)`; KafkaProblem for every failure of the cluster."""
        if self._under_way >= self._waiting_max:
            raise KafkaProblem(ErrorCode.REQUEST_TIMED_OUT, "Too many requests wait for the cluster.")
        self._under_way += 1
        try:
            asked_at = time.monotonic()
            return await asyncio.get_running_loop().run_in_executor(
                self._pool, self._in_thread, work, asked_at
            )
        finally:
            self._under_way -= 1

    def _in_thread(self, work: Callable[[Cluster], ResultT], asked_at: float) -> ResultT:
        if (time.monotonic() - asked_at) * 1000 > PATIENCE_MS:
            # Those before it waited for brokers that do not answer: nobody waits for long behind them.
            raise KafkaProblem(ErrorCode.REQUEST_TIMED_OUT, "The cluster did not answer the requests before.")
        cluster: Cluster | None = getattr(self._local, "cluster", None)
        if cluster is None:
            cluster = self._local.cluster = Cluster(self._template.bootstrap_servers, self._template.options)
            with self._lock:
                self._clusters.append(cluster)
        try:
            return work(cluster)
        except KafkaProblem:
            raise
        except RequestRefused as refused:
            raise KafkaProblem(refused.error_code, str(refused)) from None
        except UnknownTopic as unknown:
            raise KafkaProblem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(unknown)) from None
        except (ClientError, Retriable, OSError) as failed:
            raise KafkaProblem(ErrorCode.REQUEST_TIMED_OUT, str(failed)) from None

    def close(self) -> None:
        """Close the connections, after the calls under way."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for cluster in self._clusters:
            cluster.close()
