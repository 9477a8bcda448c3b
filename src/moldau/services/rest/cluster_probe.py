"""Asks the cluster now and then whether it answers, for /health."""

from __future__ import annotations

import asyncio
import logging

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import describe_cluster
from moldau.services.http.application import Health
from moldau.services.kafka.admin_threads import KafkaAdmin

log = logging.getLogger("moldau.rest")

PAUSE_SECONDS = 10.0


class ClusterProbe:
    """Begins in the running event loop, and ends with `close`."""

    def __init__(self, admin: KafkaAdmin, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._admin = admin
        self._pause_seconds = pause_seconds
        self._health = Health(False, {"cluster": "not asked yet"})
        self._task = asyncio.ensure_future(self._run())

    def health(self) -> Health:
        """What came of the last question."""
        return self._health

    async def _run(self) -> None:
        while True:
            try:
                view = await self._admin.call(describe_cluster)
            except KafkaProblem as problem:
                self._health = Health(False, {"cluster": str(problem)})
            except Exception:
                log.exception("asking the cluster failed: this is a bug")
                self._health = Health(False, {"cluster": "asking it failed: the proxy's log has the reason"})
            else:
                self._health = Health(True, {"cluster_id": view.cluster_id, "brokers": len(view.brokers)})
            await asyncio.sleep(self._pause_seconds)

    async def close(self) -> None:
        """Ask no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
