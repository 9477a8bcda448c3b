"""Before a source's tasks start, those of the set before cannot commit any more (KIP-618).

Each task has the transactional id `GROUP-CONNECTOR-NUMBER`. Its successor takes it over, and so fences it;
but where there are fewer tasks than before, or partitions went from one task to another, ids of the old set
must be fenced by somebody: the leader, before it writes how many ids the new set uses. Then its tasks may
start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.parts import RETRY_SECONDS, Parts
from moldau.services.connect.runtime.setup import driver_id
from moldau.services.connect.settings import WorkerSettings
from moldau.services.connect.stores.configs import Config, ConfigsState, fencing_record
from moldau.services.connect.stores.interface import WRITE_SECONDS, Cluster, Stores

log = logging.getLogger("moldau.connect.herder")


class Fencing:
    """The leader's side. What the loop does is short: `needed`, then `fence` beside it, then `done`."""

    def __init__(self, settings: WorkerSettings, stores: Stores, cluster: Cluster) -> None:
        self._group_id, self._stores, self._cluster = settings.group_id, stores, cluster
        self._has_transactions = settings.exactly_once_source_support.lower() != "disabled"

    def needed(self, name: str) -> tuple[int, Sequence[str]] | None:
        """How many tasks a connector has now, and the transactional ids to fence before they start; None:
        they may start. On the loop. LogFailed, TimeoutError."""
        self._stores.read_configs(WRITE_SECONDS)
        state = self._stores.configs()
        if name not in state.connectors or name not in state.pending_fencing:
            return None
        count = state.task_counts.get(name, 0)
        before = state.fenced_counts.get(name)
        return count, self._ids(name, before) if before is not None and not before == count == 1 else []

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Blocks. ClientError."""
        if transactional_ids:
            self._cluster.fence(transactional_ids)

    def done(self, name: str, count: int) -> None:
        """Note it, if there are still so many tasks: another set of them needs a fencing of its own. On the
        loop. NotWritten, LogFailed, TimeoutError."""
        state = self._stores.configs()
        if name in state.pending_fencing and state.task_counts.get(name, 0) == count:
            self._stores.write_configs([fencing_record(name, count)], as_leader=True)

    def fence_all(self, name: str) -> None:
        """No task that ever ran can commit any more (before offsets are changed). ClientError."""
        count = self._stores.configs().fenced_counts.get(name, 0)
        if count:
            self._cluster.fence(self._ids(name, count))

    def fence_driver(self, name: str) -> None:
        """No Spark driver of this sink that was left behind moves its group's offsets any more (before they
        are changed): those of a transaction the group takes from whoever has the id. ClientError."""
        if not (self._group_id and self._has_transactions):
            return
        try:
            self._cluster.fence([driver_id(self._group_id, name)])
        except KafkaProblem as refused:  # who may not use the id, has had no driver with it
            if refused.error_code != ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise

    def _ids(self, name: str, count: int) -> list[str]:
        return [f"{self._group_id}-{name}-{index}" for index in range(count)]


class FencingRequests:
    """Has the leader fence what must be fenced before tasks start here. On the loop."""

    def __init__(
        self,
        parts: Parts,
        loop: Loop,
        pool: ThreadPoolExecutor,
        fence_here: Callable[[str], None],
        then: Callable[[], None],
    ) -> None:
        """`fence_here` does it as the leader, and blocks; `then` is called when tasks may start."""
        self._settings, self._membership, self._peer = parts.settings, parts.membership, parts.peer
        self._kind_of, self._loop, self._pool = parts.kind_of, loop, pool
        self._fence_here, self._then = fence_here, then
        self._asking: set[str] = set()
        self._no_sources: dict[str, Config] = {}
        """Connectors whose tasks need no fencing, with the settings for which their class said so."""

    def needed(self, name: str, state: ConfigsState) -> bool:
        """Whether tasks have to wait. Which kind a connector is, its class says, whose module may have to be
        imported: that is asked in a thread, and until then they wait."""
        return (
            name in state.pending_fencing
            and bool(self._settings.group_id)
            and self._settings.exactly_once_source_support.lower() == "enabled"
            and self._no_sources.get(name) != state.connectors[name]
        )

    def ask(self, name: str, config: Config) -> None:
        """The tasks start when the record of the fencing comes."""
        if name not in self._asking:
            self._asking.add(name)
            leads, url = self._membership.is_leader, self._membership.leader_url
            self._pool.submit(self._ask, name, config, None if leads else url)

    def _ask(self, name: str, config: Config, url: str | None) -> None:
        """On a thread of the pool."""
        try:
            if self._kind_of(config) != "source":
                self._loop.soon(lambda: self._asked(name, config))
                return
            if url is None:
                self._fence_here(name)
            else:
                self._peer.fence(url, name)
        except Exception as problem:  # whatever it was: else the tasks would never start
            log.warning("the older tasks of %s are not fenced yet: %s", name, problem)
            self._loop.soon(lambda: self._asked(name), RETRY_SECONDS)
        else:
            self._loop.soon(lambda: self._asked(name))

    def _asked(self, name: str, no_source: Config | None = None) -> None:
        self._asking.discard(name)
        if no_source is not None:
            self._no_sources[name] = no_source
        self._then()

    def forget(self, name: str) -> None:
        """The connector is deleted."""
        self._no_sources.pop(name, None)
