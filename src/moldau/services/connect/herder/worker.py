"""A worker's operations, and what puts its parts together.

    REST ──> operation ──> record in connect-configs ──> every worker: changes ──> reconcile: plan ──> runtime
    group ──> assigned ──────────────────────────────────────────────────────────>
    runtime ──> states ──> connect-status      runtime ──> tasks that a connector wants ──> the leader

What changes something happens on one thread (loop.py), where no connector's code runs. An operation that only
the leader may do raises NotLeader on another worker, which the REST interface forwards.

    questions.py   answers from memory            leading.py     what the leader writes
    reconcile.py   what runs here                 task_sets.py   the tasks that connectors want
    telling.py     states, for connect-status     fencing.py     before a source's tasks start
    offset_changes.py   offsets, beside the loop
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from moldau.client.errors import ClientError
from moldau.services.connect.group.interface import Membership
from moldau.services.connect.group.protocol import CONNECTOR, Work
from moldau.services.connect.herder.asking import asked
from moldau.services.connect.herder.fencing import Fencing, FencingRequests
from moldau.services.connect.herder.interface import (
    ConnectorInfo,
    ConnectorStatus,
    HerderProblem,
    Signature,
)
from moldau.services.connect.herder.leading import Leading
from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.offset_changes import OffsetChanges
from moldau.services.connect.herder.offsets import Offsets
from moldau.services.connect.herder.parts import Parts
from moldau.services.connect.herder.problems import elsewhere, failed, not_found, rebalancing
from moldau.services.connect.herder.questions import Questions
from moldau.services.connect.herder.reconcile import Reconciler
from moldau.services.connect.herder.signing import check
from moldau.services.connect.herder.task_sets import Here, TaskSets
from moldau.services.connect.herder.tasks import restart_plan
from moldau.services.connect.herder.telling import Telling
from moldau.services.connect.runtime.interface import Runtime, State, Status, TaskId
from moldau.services.connect.stores.configs import (
    Change,
    Config,
    ConfigsState,
    ConnectorRemoved,
    LevelChanged,
    RestartAsked,
    connector_record,
    level_record,
    removal_records,
    restart_record,
    target_record,
    task_records,
)
from moldau.services.connect.stores.kafka_log import LogFailed, NotWritten
from moldau.services.connect.stores.offsets import KnownOffset
from moldau.services.connect.stores.statuses import WorkerStatus

log = logging.getLogger("moldau.connect.herder")
ResultT = TypeVar("ResultT")
_STUCK_SECONDS = 60.0
_STOP_SECONDS = 30.0
"""For what is told when all was stopped."""


class Worker:
    """A worker's part of what the REST interface asks; facade.py is the rest.

    Public methods may be called on any thread but the loop's, and block until they are done.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings, self._stores, self._membership = parts.settings, parts.stores, parts.membership
        self._closing = False
        self._runtime: Runtime | None = None
        self._distributed: Work = frozenset()
        self._loop = Loop("connect-herder")
        self._pool = ThreadPoolExecutor(4, "connect-peer")
        here = Here()
        self._fencing = Fencing(parts.settings, parts.stores, parts.cluster)
        self._offsets = Offsets(parts.stores, parts.cluster, self._fencing, parts.started)
        self._leading = Leading(parts, self._loop, self._is_closing)
        self._changes = OffsetChanges(parts, self._loop, self._leading)
        self.telling = Telling(parts)
        """Where the runtime's words go."""
        self.ask = Questions(parts, self._offsets, self.telling)
        """What changes nothing."""
        self._task_sets = TaskSets(
            parts, self._loop, self._pool, self._leading, self.telling, here, self._is_closing
        )
        self._reconciler = Reconciler(
            parts, self._loop, lambda: self.runtime, self.telling, self._task_sets, here, self._is_closing
        )
        self._reconciler.fencing = FencingRequests(
            parts, self._loop, self._pool, lambda name: self.fence(name, None), self._reconciler.soon
        )

    def start(self, runtime: Runtime) -> None:
        """Read what there is, and join. Blocks. TopicRefused, ClientError, LogFailed, TimeoutError."""
        self._runtime = runtime
        self._stores.start(self._changed)
        for logger, level in self._stores.configs().levels.items():
            self._parts.set_level(logger, level)
        self._loop.start()
        self._membership.start(self)

    def close(self) -> None:
        """Stop what runs, and leave the group. Blocks."""
        self._closing = True
        self._stop_all()
        self._membership.close()
        self._loop.close(5)
        if self._runtime is not None:
            self._runtime.close(self._settings.task_shutdown_graceful_timeout_ms / 1000)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._stores.close()

    def _stop_all(self) -> None:
        seconds = 2 * self._settings.task_shutdown_graceful_timeout_ms / 1000 + _STOP_SECONDS
        try:
            self._loop.call(self._reconciler.stop_all).result(seconds)
        except (FutureTimeout, CancelledError):
            log.error("the worker's work did not end in time")

    def _is_closing(self) -> bool:
        return self._closing

    @property
    def is_started(self) -> bool:
        """Whether all that was there has been read, and the worker belongs to its group."""
        return self._reconciler.has_run

    @property
    def trouble(self) -> str:
        """What keeps this worker from doing its work, for some time now; empty: nothing."""
        if self._loop.busy_seconds > _STUCK_SECONDS:
            return "what it does has been taking more than a minute"
        return self._stores.trouble() or self._membership.trouble

    @property
    def runtime(self) -> Runtime:
        """What runs here."""
        assert self._runtime is not None
        return self._runtime

    @property
    def membership(self) -> Membership:
        """Its place in its group."""
        return self._membership

    @property
    def configs(self) -> ConfigsState:
        """The configuration as it was read last."""
        return self._stores.configs()

    def _on_loop(self, work: Callable[[], ResultT]) -> ResultT:
        return asked(self._loop, work)

    # What the REST interface changes

    def put_config(
        self, name: str, config: Config, *, may_exist: bool, target: State | None = None
    ) -> tuple[bool, ConnectorInfo]:
        """Create or change a connector whose settings were validated; whether it is new, what it is now."""

        def put() -> bool:
            self._leading.require()
            exists = name in self._stores.configs().connectors
            if exists and not may_exist:
                raise HerderProblem(409, f"Connector {name} already exists")
            self._changes.refuse_during(name)
            records = [connector_record(name, config)]
            if target is not None:
                records.insert(0, target_record(name, target))
            self._leading.write(records)
            return not exists

        is_new = self._on_loop(put)
        return is_new, self.ask.info(name)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> dict[str, str]:
        """The settings that a patch leads to (null removes one). HerderProblem, NotLeader."""

        def patched() -> dict[str, str]:
            self._leading.require()
            found = {**self.ask.known(name).connectors[name], **patch}
            return {each: value for each, value in found.items() if value is not None}

        return self._on_loop(patched)

    def delete(self, name: str) -> None:
        """Delete a connector; its offsets stay. HerderProblem 404, NotLeader."""

        def delete() -> None:
            self._leading.require()
            state = self.ask.known(name)
            tasks = [TaskId(name, index) for index in self._stores.statuses_of_tasks(name)]
            self._leading.write(removal_records(name))
            for each in {*tasks, *state.tasks(name)}:
                self._stores.put_task_status(each, None)
            self._stores.put_connector_status(name, None)
            self._stores.remove_topics(name)

        self._on_loop(delete)

    def set_target(self, name: str, target: State) -> None:
        """Pause, resume, stop. What is stopped is resumed by the leader, which knows whether its offsets are
        being changed. HerderProblem 404, NotLeader."""

        def put() -> None:
            state = self.ask.known(name)
            if target is State.STOPPED:
                self._leading.require()
                self._leading.write([target_record(name, target), *task_records(name, [])])
                return
            if state.target(name) is State.STOPPED:
                self._leading.require()
                self._changes.refuse_during(name)
            self._leading.write([target_record(name, target)], as_leader=False)

        self._on_loop(put)

    def restart_connector(self, name: str) -> None:
        """Start the connector's instance again. HerderProblem 404, NotLeader."""

        def restart() -> None:
            if name not in self._stores.configs().connectors:
                raise not_found(f"Unknown connector: {name}")
            self._require_here(TaskId(name, CONNECTOR))
            self._reconciler.restart(name, [], is_connector=True)

        self._on_loop(restart)

    def restart_task(self, task: TaskId) -> None:
        """Start a task again. HerderProblem 404, NotLeader."""

        def restart() -> None:
            state = self._stores.configs()
            if task.connector not in state.connectors:
                raise not_found(f"Unknown connector: {task.connector}")
            if task not in state.tasks(task.connector):
                raise not_found(f"Unknown task: {task.connector}-{task.task}")
            self._require_here(task)
            self._reconciler.restart(task.connector, [task], is_connector=False)

        self._on_loop(restart)

    def _require_here(self, work: TaskId) -> None:
        """Go on where this worker runs it. Else the leader is asked, which knows who does, from what the
        members of its group say. (A record of connect-status is nothing to send a login by.) NotLeader."""
        if work in self._membership.held():
            return
        if self._membership.is_rebalancing:
            raise rebalancing()
        self._leading.require()
        owner = self._membership.owner_url(work)
        raise elsewhere(owner) if owner else rebalancing()

    def restart(self, asked_for: RestartAsked) -> ConnectorStatus:
        """Start a connector and perhaps its tasks again, wherever they run (KIP-745); what is expected."""
        name = asked_for.name

        def restart() -> tuple[WorkerStatus, dict[int, WorkerStatus]]:
            self._leading.require()
            state = self._stores.configs()
            if name not in state.connectors:
                raise not_found(f"Unknown connector: {name}")
            found, tasks = self._stores.connector_status(name), self._stores.statuses_of_tasks(name)
            if found is None:
                raise not_found(f"Status for connector {name} not found")
            self._leading.write([restart_record(asked_for)])
            parts = restart_plan(asked_for, state, found, tasks)
            if parts.connector:
                found = found._replace(state=State.RESTARTING, trace="")
            shown = dict(tasks)
            for each in parts.tasks:
                if each.task in shown:
                    shown[each.task] = shown[each.task]._replace(state=State.RESTARTING, trace="")
            return found, shown

        return self.ask.shown(name, *self._on_loop(restart))

    def put_tasks(self, name: str, configs: Sequence[Config], signature: Signature | None) -> None:
        """What a connector wants as tasks; `signature`: of another worker's request. HerderProblem."""
        self._check_signature(signature)

        def put() -> None:
            self._leading.require()
            self._task_sets.write(name, configs)

        self._on_loop(put)

    def fence(self, name: str, signature: Signature | None) -> None:
        """Fence a connector's older tasks. HerderProblem."""
        self._check_signature(signature)

        def needed() -> tuple[int, Sequence[str]] | None:
            self._leading.require()
            self.ask.known(name)
            return self._fencing.needed(name)

        found = self._on_loop(needed)
        if found is None:
            return
        count, transactional_ids = found
        try:
            self._fencing.fence(transactional_ids)
        except ClientError as problem:
            raise failed(f"Failed to fence out tasks of connector {name}: {problem}") from None

        def done() -> None:
            self._leading.require()
            try:
                self._fencing.done(name, count)
            except NotWritten as problem:
                self._leading.not_written(problem)
                raise

        self._on_loop(done)

    def _check_signature(self, signature: Signature | None) -> None:
        if signature is not None and not self._settings.group_id:
            raise failed(
                "Kafka Connect in standalone mode has no other workers, and takes no tasks from them"
            )
        if signature is not None and self._membership.signs_requests:
            key = self._stores.configs().session_key
            check(key, self._settings.inter_worker_verification_algorithms, signature)

    def alter_offsets(self, name: str, wanted: Sequence[KnownOffset]) -> str:
        """Set offsets of a stopped connector; what to tell. HerderProblem."""
        return self._changes.make(
            name, lambda config, kind, still: self._offsets.alter(name, config, kind, wanted, still)
        )

    def reset_offsets(self, name: str) -> str:
        """Forget them; what to tell. HerderProblem."""
        return self._changes.make(
            name, lambda config, kind, still: self._offsets.reset(name, config, kind, still)
        )

    def set_cluster_level(self, logger: str, level: str) -> None:
        """The level of a logger on all workers (KIP-976)."""
        self._on_loop(lambda: self._leading.write([level_record(logger, level)], as_leader=False))

    # The group's side (GroupListener): on the member's thread

    def wanted(self, offset: int) -> tuple[Work, int] | None:
        """See GroupListener."""
        if self._stores.configs().offset < offset:
            try:
                self._stores.read_configs(self._settings.worker_sync_timeout_ms / 1000)
            except (LogFailed, TimeoutError) as problem:
                log.warning("%s", problem)
        state = self._stores.configs()
        if state.offset < offset:
            return None
        self._distributed = _work(state)
        return self._distributed, state.offset

    def assigned(self, offset: int) -> None:
        """See GroupListener."""
        self._reconciler.offset_wanted = max(offset, self._reconciler.offset_wanted)
        self._loop.soon(self._leading.assigned)
        self._reconciler.soon()

    def lost(self) -> None:
        """See GroupListener: waits, since others may start the same work."""
        self._stop_all()

    # Changes of the configuration: on the store's thread, then on the loop

    def _changed(self, changes: Sequence[Change]) -> None:
        self._loop.soon(lambda: self._take(changes))

    def _take(self, changes: Sequence[Change]) -> None:
        for each in changes:
            if isinstance(each, LevelChanged):
                self._parts.set_level(each.logger, each.level)
            elif isinstance(each, RestartAsked):
                self._reconciler.restart_asked(each)
            elif isinstance(each, ConnectorRemoved):
                self._reconciler.forget(each.name)
        if self._membership.is_leader and _work(self._stores.configs()) != self._distributed:
            self._membership.join_again()
        self._reconciler.soon()

    # The runtime's side (Listener): on any thread

    def task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """See Listener."""
        wanted = [dict(each) for each in configs]
        self._loop.soon(lambda: self._task_sets.wants(name, wanted))


def _work(state: ConfigsState) -> Work:
    """All there is to run."""
    connectors = {TaskId(name, CONNECTOR) for name in state.connectors}
    return frozenset({*connectors, *(task for name in state.connectors for task in state.tasks(name))})


class RuntimeListener:
    """See Listener: the runtime's words for the worker."""

    def __init__(self, herder: Worker) -> None:
        self._herder = herder

    def connector_status(self, connector: str, status: Status) -> None:
        """See Listener."""
        self._herder.telling.connector(connector, status)

    def task_status(self, task: TaskId, status: Status) -> None:
        """See Listener."""
        self._herder.telling.task(task, status)

    def task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """See Listener."""
        self._herder.task_configs(connector, configs)

    def topic_used(self, connector: str, topic: str) -> None:
        """See Listener."""
        self._herder.telling.topic_used(connector, topic)
