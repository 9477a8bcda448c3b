"""A worker's operations, and what makes that runs here what shall run here.

    REST ──> operation ──> record in connect-configs ──> every worker: changes ──> reconcile: plan ──> runtime
    group ──> assigned ──────────────────────────────────────────────────────────>
    runtime ──> states ──> connect-status      runtime ──> tasks that a connector wants ──> the leader

What changes something happens on one thread (loop.py). An operation that only the leader may do raises
NotLeader on another worker, which the REST interface forwards. A crash between a record and its effect is
made good by whoever has the work next: the records say all that is to be done.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Protocol, TypeVar

from moldau.client.errors import ClientError
from moldau.connect.errors import ConnectError
from moldau.services.connect.group.interface import Membership
from moldau.services.connect.group.protocol import CONNECTOR, Work
from moldau.services.connect.herder.fencing import Fencing
from moldau.services.connect.herder.interface import (
    ConnectorInfo,
    ConnectorStatus,
    HerderProblem,
    OffsetRow,
    Placed,
    Signature,
)
from moldau.services.connect.herder.loop import Loop, Overloaded
from moldau.services.connect.herder.offsets import Offsets, Started
from moldau.services.connect.herder.plan import RunningConnector, plan
from moldau.services.connect.herder.problems import bad_request, elsewhere, failed, not_found, rebalancing
from moldau.services.connect.herder.secrets import Secrets
from moldau.services.connect.herder.signing import check, key_needed
from moldau.services.connect.herder.tasks import restart_plan, task_class, task_configs, too_many
from moldau.services.connect.runtime.hiding import filled_in, without
from moldau.services.connect.runtime.interface import Runtime, State, Status, TaskId
from moldau.services.connect.settings import WorkerSettings
from moldau.services.connect.stores.configs import (
    Change,
    Config,
    ConfigsState,
    ConnectorRemoved,
    LevelChanged,
    Record,
    RestartAsked,
    connector_record,
    level_record,
    removal_records,
    restart_record,
    session_key_record,
    target_record,
    task_records,
)
from moldau.services.connect.stores.interface import WRITE_SECONDS, Cluster, Stores
from moldau.services.connect.stores.kafka_log import LogFailed, NotWritten
from moldau.services.connect.stores.offsets import KnownOffset
from moldau.services.connect.stores.statuses import TopicUse, WorkerStatus

log = logging.getLogger("moldau.connect.herder")
ResultT = TypeVar("ResultT")
REQUEST_SECONDS = 90.0
_RETRY_SECONDS = 1.0
_RETRY_SECONDS_MAX = 30.0
_STUCK_SECONDS = 60.0
_NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)


KindOf = Callable[[Config], str]
"""`source`, `sink` or `unknown`, by a connector's settings."""


class Peer(Protocol):
    """How the leader is reached for what this worker may not write itself; both block. HerderProblem."""

    def put_tasks(self, url: str, name: str, configs: Sequence[Config]) -> None:
        """The tasks of a connector."""

    def fence(self, url: str, name: str) -> None:
        """No older task of a connector may write any more."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a herder works with."""

    settings: WorkerSettings
    worker_id: str
    stores: Stores
    membership: Membership
    cluster: Cluster
    secrets: Secrets
    kind_of: KindOf
    started: Started
    peer: Peer
    set_level: Callable[[str, str], None]


class Worker:
    """A worker's part of what the REST interface asks; facade.py is the rest.

    Public methods may be called on any thread but the loop's, and block until they are done.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings, self._stores, self._membership = parts.settings, parts.stores, parts.membership
        self._loop = Loop("connect-herder")
        self._pool = ThreadPoolExecutor(4, "connect-peer")
        self._fencing = Fencing(parts.settings.group_id, parts.stores, parts.cluster)
        self._offsets = Offsets(parts.stores, parts.cluster, self._fencing, parts.started)
        self._runtime: Runtime | None = None
        self._connectors: dict[str, RunningConnector] = {}
        self._tasks: dict[TaskId, Config] = {}
        self._resolved: dict[str, Config] = {}
        self._secrets: dict[str, tuple[str, ...]] = {}
        """What was filled in for references of a connector and its tasks: hidden in the states they tell."""
        self._fencing_now: set[str] = set()
        self._offset_wanted = -1
        self._distributed: Work = frozenset()
        self._proposed: dict[str, Sequence[Config]] = {}
        """What each connector wanted last as tasks: what it wanted before is not tried again."""
        self._reconcile_waits = False
        self._reconciles_again = False
        self._renews_key = False
        self._has_claimed = False
        self._fenced_in: int | None = None
        """The generation in which somebody else claimed the configuration: in it, nothing is claimed back."""
        self._known_topics: set[tuple[str, str]] = set()
        self._closing = False
        self.is_started = False
        """Whether all that was there has been read, and the worker belongs to its group."""

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
        timeout = self._settings.task_shutdown_graceful_timeout_ms / 1000
        try:
            self._loop.call(lambda: self._stop_all(timeout)).result(timeout + 30)
        except (FutureTimeout, CancelledError):
            log.error("the worker's work did not end in time")
        self._membership.close()
        self._loop.close(5)
        if self._runtime is not None:
            self._runtime.close(timeout)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._stores.close()

    @property
    def is_stuck(self) -> bool:
        """Whether what runs on the loop has been running for a minute."""
        return self._loop.busy_seconds > _STUCK_SECONDS

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
        try:
            return self._loop.call(work).result(REQUEST_SECONDS)
        except FutureTimeout:
            raise failed(
                "Request timed out. The worker is busy, or its topics cannot be read or written; its log "
                "says more"
            ) from None
        except CancelledError:
            raise failed("the worker stops") from None
        except Overloaded as problem:
            raise failed(str(problem)) from None
        except (NotWritten, LogFailed) as problem:
            if isinstance(problem, NotWritten) and problem.fenced:
                raise rebalancing() from None
            raise failed(str(problem)) from None

    def _known(self, name: str) -> ConfigsState:
        state = self._stores.configs()
        if name not in state.connectors:
            raise not_found(f"Connector {name} not found")
        return state

    def _lead(self) -> None:
        """Go on only as the leader. NotLeader."""
        if not self._membership.is_leader:
            raise elsewhere(self._membership.leader_url)

    def _write(self, records: Sequence[Record], *, as_leader: bool = True) -> None:
        """NotWritten: also where another worker leads by now, as its claim shows. Whether it does, the group
        must say, before this one may claim the configuration again."""
        try:
            self._stores.write_configs(records, as_leader=as_leader)
        except NotWritten as problem:
            self._not_written(problem)
            raise

    def _not_written(self, problem: NotWritten) -> None:
        if problem.fenced and self._has_claimed:
            self._has_claimed, self._fenced_in = False, self._membership.generation
            self._membership.join_again()

    # Questions

    def connectors(self) -> list[str]:
        """Names."""
        return list(self._stores.configs().connectors)

    def kind(self, name: str) -> str:
        """`source`, `sink` or `unknown`. HerderProblem 404."""
        return self._parts.kind_of(self._known(name).connectors[name])

    def info(self, name: str) -> ConnectorInfo:
        """A connector. HerderProblem 404."""
        state = self._known(name)
        config = state.connectors[name]
        return ConnectorInfo(name, config, state.tasks(name), self._parts.kind_of(config))

    def fresh(self) -> None:
        """Read the configuration to its end, so that what was written before is seen. HerderProblem."""
        try:
            self._stores.read_configs(WRITE_SECONDS)
        except (LogFailed, TimeoutError) as problem:
            raise failed(str(problem)) from None

    def config(self, name: str) -> Config:
        """A connector's settings, as they were given. HerderProblem 404."""
        return self._known(name).connectors[name]

    def task_configs_of(self, name: str) -> list[tuple[TaskId, Config]]:
        """A connector's tasks with their settings. HerderProblem 404."""
        state = self._known(name)
        return [(each, state.task_configs[each]) for each in state.tasks(name)]

    def status(self, name: str) -> ConnectorStatus:
        """How a connector goes. HerderProblem 404."""
        found = self._stores.connector_status(name)
        if found is None:
            raise not_found(f"No status found for connector {name}")
        return self._shown(name, found, self._stores.statuses_of_tasks(name))

    def states(self, name: str) -> dict[str, WorkerStatus]:
        """How a connector and its tasks go, as `name` and `name-0`; no class is looked up for it."""
        found = self._stores.connector_status(name)
        tasks = self._stores.statuses_of_tasks(name)
        parts = {f"{name}-{index}": each for index, each in sorted(tasks.items())}
        return parts if found is None else {name: found, **parts}

    def _shown(self, name: str, found: WorkerStatus, tasks: Mapping[int, WorkerStatus]) -> ConnectorStatus:
        config = self._stores.configs().connectors.get(name, {})
        placed = {index: _placed(each) for index, each in sorted(tasks.items())}
        return ConnectorStatus(name, self._parts.kind_of(config), _placed(found), placed)

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has used. HerderProblem 404."""
        self._known(name)
        return sorted(self._stores.topics(name))

    def reset_topics(self, name: str) -> None:
        """Forget them. HerderProblem 404."""
        self._known(name)
        self._stores.remove_topics(name)
        self._known_topics = {each for each in self._known_topics if each[0] != name}

    def offsets(self, name: str) -> list[OffsetRow]:
        """Where a connector stands. HerderProblem."""
        config = self._known(name).connectors[name]
        return self._offsets.shown(name, config, self._parts.kind_of(config))

    # Changes

    def put_config(
        self, name: str, config: Config, *, may_exist: bool, target: State | None = None
    ) -> tuple[bool, ConnectorInfo]:
        """Create or change a connector whose settings were validated; whether it is new, what it is now."""

        def put() -> tuple[bool, ConnectorInfo]:
            self._lead()
            exists = name in self._stores.configs().connectors
            if exists and not may_exist:
                raise HerderProblem(409, f"Connector {name} already exists")
            records = [connector_record(name, config)]
            if target is not None:
                records.insert(0, target_record(name, target))
            self._write(records)
            return not exists, self.info(name)

        return self._on_loop(put)

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> dict[str, str]:
        """The settings that a patch leads to (null removes one). HerderProblem, NotLeader."""

        def patched() -> dict[str, str]:
            self._lead()
            found = {**self._known(name).connectors[name], **patch}
            return {each: value for each, value in found.items() if value is not None}

        return self._on_loop(patched)

    def delete(self, name: str) -> None:
        """Delete a connector; its offsets stay. HerderProblem 404, NotLeader."""

        def delete() -> None:
            self._lead()
            state = self._known(name)
            tasks = [TaskId(name, index) for index in self._stores.statuses_of_tasks(name)]
            self._write(removal_records(name))
            for each in {*tasks, *state.tasks(name)}:
                self._stores.put_task_status(each, None)
            self._stores.put_connector_status(name, None)
            self._stores.remove_topics(name)

        self._on_loop(delete)

    def set_target(self, name: str, target: State) -> None:
        """Pause, resume, stop. HerderProblem 404."""

        def put() -> None:
            self._known(name)
            if target is State.STOPPED:
                self._lead()
                self._write([target_record(name, target)])
                self._write(task_records(name, []))
            else:
                self._write([target_record(name, target)], as_leader=False)

        self._on_loop(put)

    def restart_connector(self, name: str) -> None:
        """Start the connector's instance again. HerderProblem 404, NotLeader."""

        def restart() -> None:
            if name not in self._stores.configs().connectors:
                raise not_found(f"Unknown connector: {name}")
            if TaskId(name, CONNECTOR) not in self._membership.held():
                raise self._where(self._stores.connector_status(name))
            self._restart_here(name, [], is_connector=True)

        self._on_loop(restart)

    def restart_task(self, task: TaskId) -> None:
        """Start a task again. HerderProblem 404, NotLeader."""

        def restart() -> None:
            state = self._stores.configs()
            if task.connector not in state.connectors:
                raise not_found(f"Unknown connector: {task.connector}")
            if task not in state.tasks(task.connector):
                raise not_found(f"Unknown task: {task.connector}-{task.task}")
            if task not in self._membership.held():
                raise self._where(self._stores.task_status(task))
            self._restart_here(task.connector, [task], is_connector=False)

        self._on_loop(restart)

    def _where(self, status: WorkerStatus | None) -> HerderProblem:
        if status is None or self._membership.is_rebalancing or status.worker_id == self._parts.worker_id:
            return rebalancing()
        scheme = self._membership.leader_url.partition("://")[0] or "http"
        return elsewhere(f"{scheme}://{status.worker_id}/")

    def restart(self, asked: RestartAsked) -> ConnectorStatus:
        """Start a connector and perhaps its tasks again, wherever they run (KIP-745); what is expected."""

        def restart() -> ConnectorStatus:
            self._lead()
            state = self._stores.configs()
            if asked.name not in state.connectors:
                raise not_found(f"Unknown connector: {asked.name}")
            found, tasks = (
                self._stores.connector_status(asked.name),
                self._stores.statuses_of_tasks(asked.name),
            )
            if found is None:
                raise not_found(f"Status for connector {asked.name} not found")
            self._write([restart_record(asked)])
            parts = restart_plan(asked, state, found, tasks)
            if parts.connector:
                found = found._replace(state=State.RESTARTING, trace="")
            shown = dict(tasks)
            for each in parts.tasks:
                if each.task in shown:
                    shown[each.task] = shown[each.task]._replace(state=State.RESTARTING, trace="")
            return self._shown(asked.name, found, shown)

        return self._on_loop(restart)

    def put_tasks(self, name: str, configs: Sequence[Config], signature: Signature | None) -> None:
        """What a connector wants as tasks; `signature`: of another worker's request. HerderProblem."""
        self._check_signature(signature)

        def put() -> None:
            self._lead()
            self._write_tasks(name, configs)

        self._on_loop(put)

    def fence(self, name: str, signature: Signature | None) -> None:
        """Fence a connector's older tasks. HerderProblem."""
        self._check_signature(signature)

        def fence() -> None:
            self._lead()
            self._known(name)
            try:
                self._fencing.fence(name)
            except ClientError as problem:
                raise failed(f"Failed to fence out tasks of connector {name}: {problem}") from None
            except NotWritten as problem:
                self._not_written(problem)
                raise

        self._on_loop(fence)

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
        return self._change_offsets(
            name, lambda config, kind: self._offsets.alter(name, config, kind, wanted)
        )

    def reset_offsets(self, name: str) -> str:
        """Forget them; what to tell. HerderProblem."""
        return self._change_offsets(name, lambda config, kind: self._offsets.reset(name, config, kind))

    def _change_offsets(self, name: str, change: Callable[[Config, str], str]) -> str:
        def work() -> str:
            self._lead()
            state = self._known(name)
            if state.target(name) is not State.STOPPED or state.task_counts.get(name):
                raise bad_request(_NOT_STOPPED.format(name))
            config = state.connectors[name]
            return change(self._parts.secrets.filled(config), self._parts.kind_of(config))

        return self._on_loop(work)

    def set_cluster_level(self, logger: str, level: str) -> None:
        """The level of a logger on all workers (KIP-976)."""
        self._on_loop(lambda: self._write([level_record(logger, level)], as_leader=False))

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
        self._distributed = self._work(state)
        return self._distributed, state.offset

    def assigned(self, offset: int) -> None:
        """See GroupListener."""
        self._offset_wanted = max(offset, self._offset_wanted)
        self._loop.soon(self._led)
        self._reconcile_soon()

    def lost(self) -> None:
        """See GroupListener: waits, since others may start the same work."""
        timeout = self._settings.task_shutdown_graceful_timeout_ms / 1000
        try:
            self._loop.call(lambda: self._stop_all(timeout)).result(timeout + 30)
        except (FutureTimeout, CancelledError):
            log.error("the worker's work did not end in time")

    def _led(self) -> None:
        """A leader claims the configuration, and gives the group a key to sign with."""
        if not self._membership.is_leader:
            self._has_claimed = False
            return
        if not self._has_claimed:
            if self._membership.generation == self._fenced_in:
                self._membership.join_again()
                return
            try:
                self._stores.claim()
            except (NotWritten, ClientError) as problem:
                log.error("%s", problem)
                self._loop.soon(self._led, _RETRY_SECONDS)
                return
            self._has_claimed, self._fenced_in = True, None
        self._renew_key()

    def _renew_key(self) -> None:
        if self._closing or not (self._membership.is_leader and self._membership.signs_requests):
            return
        now_ms = int(time.time() * 1000)
        new = key_needed(self._stores.configs().session_key, self._settings, now_ms)
        if new is not None:
            try:
                self._write([session_key_record(new)])
            except (NotWritten, LogFailed, TimeoutError) as problem:
                log.error("the key of the group was not written: %s", problem)
                self._loop.soon(self._renew_key, _RETRY_SECONDS)
                return
        if self._settings.inter_worker_key_ttl_ms > 0 and not self._renews_key:
            self._renews_key = True
            self._loop.soon(self._renew_key_again, max(self._settings.inter_worker_key_ttl_ms / 1000, 1.0))

    def _renew_key_again(self) -> None:
        self._renews_key = False
        self._renew_key()

    # Changes of the configuration: on the store's thread

    def _changed(self, changes: Sequence[Change]) -> None:
        self._loop.soon(lambda: self._take(changes))

    def _take(self, changes: Sequence[Change]) -> None:
        for each in changes:
            if isinstance(each, LevelChanged):
                self._parts.set_level(each.logger, each.level)
            elif isinstance(each, RestartAsked):
                self._restart_asked(each)
            elif isinstance(each, ConnectorRemoved):
                self._resolved.pop(each.name, None)
                self._proposed.pop(each.name, None)
                self._secrets.pop(each.name, None)
                self._known_topics = {known for known in self._known_topics if known[0] != each.name}
        if self._membership.is_leader and self._work(self._stores.configs()) != self._distributed:
            self._membership.join_again()
        self._reconcile_soon()

    @staticmethod
    def _work(state: ConfigsState) -> Work:
        """All there is to run."""
        connectors = {TaskId(name, CONNECTOR) for name in state.connectors}
        return frozenset({*connectors, *(task for name in state.connectors for task in state.tasks(name))})

    def _restart_asked(self, asked: RestartAsked) -> None:
        state = self._stores.configs()
        if asked.name not in state.connectors:
            return
        statuses = self._stores.statuses_of_tasks(asked.name)
        parts = restart_plan(asked, state, self._stores.connector_status(asked.name), statuses)
        own = self._membership.held()
        tasks = [each for each in parts.tasks if each in own]
        self._restart_here(
            asked.name, tasks, is_connector=parts.connector and TaskId(asked.name, CONNECTOR) in own
        )

    def _restart_here(self, name: str, tasks: Sequence[TaskId], *, is_connector: bool) -> None:
        if is_connector:
            self._stores.put_connector_status(name, self._status(Status(State.RESTARTING)))
            self._stop_connector(name)
        if tasks:
            for each in tasks:
                self._stores.put_task_status(each, self._status(Status(State.RESTARTING)))
            self._stop_tasks(tasks)
        self._reconcile()

    # What runs here follows what shall run here: on the loop

    def _reconcile_soon(self) -> None:
        if not self._reconcile_waits and not self._closing:
            self._reconcile_waits = True
            self._loop.soon(self._reconcile_waiting)

    def _reconcile_waiting(self) -> None:
        self._reconcile_waits = False
        try:
            self._reconcile()
        except (LogFailed, TimeoutError, NotWritten) as problem:
            log.error("what runs here cannot be brought up to date yet: %s", problem)
            self._reconcile_later(_RETRY_SECONDS)

    def _reconcile_later(self, after_seconds: float) -> None:
        """However many want it, one waits."""
        if not self._reconciles_again:
            self._reconciles_again = True
            self._loop.soon(self._reconcile_again, after_seconds)

    def _reconcile_again(self) -> None:
        self._reconciles_again = False
        self._reconcile_soon()

    def _reconcile(self) -> None:
        if self._closing or self._membership.generation < 0:
            return
        if self._stores.configs().offset < self._offset_wanted:
            self._stores.read_configs(self._settings.worker_sync_timeout_ms / 1000)
        state = self._stores.configs()
        held, revoked = self._membership.held(), self._membership.revoked()
        made = plan(held, revoked, state, self._connectors, self._tasks)
        gone = [each for each in made.stop_tasks if each not in made.start_tasks]
        self._stop_tasks(made.stop_tasks, told=gone)
        for name in made.stop_connectors:
            self._stop_connector(name, is_told=name not in made.start_connectors)
        if made.let_go:
            self._membership.let_go(frozenset(made.let_go))
        for name in made.start_connectors:
            self._start_connector(name, state)
        for task in made.start_tasks:
            self._start_task(task, state)
        for name in made.set_targets:
            self._connectors[name] = RunningConnector(state.connectors[name], state.target(name))
        for name in {*made.set_targets, *(task.connector for task in self._tasks)} - set(
            made.start_connectors
        ):
            self.runtime.set_target(name, state.target(name))
        for name in made.without_tasks:
            self._propose_tasks(name, [])
        self.is_started = True

    def _stop_tasks(self, tasks: Sequence[TaskId], told: Sequence[TaskId] = ()) -> None:
        running = [each for each in tasks if each in self._tasks]
        if not running:
            return
        left = self.runtime.stop_tasks(running, self._settings.task_shutdown_graceful_timeout_ms / 1000)
        for each in left:
            log.error("the task %s-%d did not end in time and was left behind", each.connector, each.task)
        for each in running:
            del self._tasks[each]
        configured = self._stores.configs()
        for each in told:
            if each in configured.tasks(each.connector):
                self._stores.put_task_status(each, self._status(Status(State.UNASSIGNED)), safe=True)
            else:
                self._stores.put_task_status(each, None)

    def _stop_connector(self, name: str, *, is_told: bool = False) -> None:
        if self._connectors.pop(name, None) is None:
            return
        if not self.runtime.stop_connector(name, self._settings.task_shutdown_graceful_timeout_ms / 1000):
            log.error("the connector %s did not end in time and was left behind", name)
        if is_told and name in self._stores.configs().connectors:
            self._stores.put_connector_status(name, self._status(Status(State.UNASSIGNED)), safe=True)

    def _stop_all(self, timeout_seconds: float) -> None:
        tasks = list(self._tasks)
        self._stop_tasks(tasks, told=tasks)
        for name in list(self._connectors):
            self._stop_connector(name, is_told=True)

    def _start_connector(self, name: str, state: ConfigsState) -> None:
        config, target = state.connectors[name], state.target(name)
        self._connectors[name] = RunningConnector(config, target)
        try:
            self._resolved[name] = self._parts.secrets.filled(config)
            self._hide(name, config, self._resolved[name])
        except ConnectError as problem:
            self.connector_status_told(name, Status(State.FAILED, str(problem)))
            self._loop.soon(lambda: self._try_connector_again(name), _RETRY_SECONDS_MAX)
            return
        self.runtime.start_connector(name, self._resolved[name], target)

    def _try_connector_again(self, name: str) -> None:
        found = self._stores.connector_status(name)
        if name in self._connectors and found is not None and found.state is State.FAILED:
            del self._connectors[name]
            self._reconcile_soon()

    def _start_task(self, task: TaskId, state: ConfigsState) -> None:
        config = state.task_configs[task]
        if self._must_fence(task.connector, state):
            self._ask_to_fence(task.connector)
            return
        try:
            filled = self._parts.secrets.filled(config)
        except ConnectError as problem:
            self.task_status_told(task, Status(State.FAILED, str(problem)))
            self._reconcile_later(_RETRY_SECONDS_MAX)
            return
        self._hide(task.connector, config, filled)
        self._tasks[task] = config
        self.runtime.start_task(task, filled, state.target(task.connector))

    def _hide(self, name: str, config: Config, filled: Config) -> None:
        secrets = {*self._secrets.get(name, ()), *filled_in(config, filled)}
        self._secrets[name] = tuple(sorted(secrets, key=len, reverse=True))

    # Fencing

    def _must_fence(self, name: str, state: ConfigsState) -> bool:
        return (
            name in state.pending_fencing
            and bool(self._settings.group_id)
            and self._settings.exactly_once_source_support.lower() == "enabled"
            and self._parts.kind_of(state.connectors[name]) == "source"
        )

    def _ask_to_fence(self, name: str, after_seconds: float = 0.0) -> None:
        """The tasks start when the record of the fencing comes."""
        if name in self._fencing_now:
            return
        self._fencing_now.add(name)
        url = self._membership.leader_url
        is_leader = self._membership.is_leader

        def fence() -> None:
            time.sleep(after_seconds)
            try:
                if is_leader:
                    self.fence(name, None)
                else:
                    self._parts.peer.fence(url, name)
            except Exception as problem:  # whatever it was: else the tasks would never start
                log.warning("the older tasks of %s are not fenced yet: %s", name, problem)
                self._loop.soon(lambda: self._fenced(name), _RETRY_SECONDS)
            else:
                self._loop.soon(lambda: self._fenced(name))

        self._pool.submit(fence)

    def _fenced(self, name: str) -> None:
        self._fencing_now.discard(name)
        self._reconcile_soon()

    # The runtime's side (Listener): on any thread

    def _status(self, status: Status, connector: str = "") -> WorkerStatus:
        return WorkerStatus(
            status.state,
            self._parts.worker_id,
            max(self._membership.generation, 0),
            without(self._secrets.get(connector, ()), status.trace) if status.trace else "",
            status.version,
            status.engine,
            status.restarts_at_ms,
        )

    def connector_status_told(self, name: str, status: Status) -> None:
        """The runtime says how a connector goes."""
        if name in self._stores.configs().connectors:
            self._stores.put_connector_status(name, self._status(status, name))

    def task_status_told(self, task: TaskId, status: Status) -> None:
        """The runtime says how a task goes."""
        if task.connector in self._stores.configs().connectors:
            self._stores.put_task_status(task, self._status(status, task.connector))

    def topic_used(self, name: str, topic: str, task: int = 0) -> None:
        """See Listener."""
        if self._settings.topic_tracking_enable and (name, topic) not in self._known_topics:
            self._known_topics.add((name, topic))
            self._stores.put_topic(TopicUse(topic, name, task, int(time.time() * 1000)))

    def task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """See Listener."""
        wanted = [dict(each) for each in configs]
        self._loop.soon(lambda: self._tasks_wanted(name, wanted))

    def _tasks_wanted(self, name: str, wanted: Sequence[Config]) -> None:
        running = self._connectors.get(name)
        if running is None:
            return
        before = self._stores.configs().configs_of_tasks(name)
        java_class = task_class(running.config, before)
        made = task_configs(running.config, self._resolved.get(name, {}), wanted, java_class)
        complaint = too_many(name, running.config, len(made))
        if complaint is not None:
            self.connector_status_told(name, Status(State.FAILED, complaint))
            return
        self._propose_tasks(name, made)

    def _propose_tasks(
        self, name: str, configs: Sequence[Config], after_seconds: float = _RETRY_SECONDS
    ) -> None:
        """Write what a connector wants as tasks, or have the leader do it; try again until it is done, the
        connector wants others, or is not this worker's any more."""
        state = self._stores.configs()
        if name not in state.connectors or name not in self._connectors or self._closing:
            return
        if (state.target(name) is State.STOPPED) is bool(configs):
            return
        self._proposed[name] = configs
        if (
            name not in state.inconsistent
            and name in state.task_counts
            and state.configs_of_tasks(name) == list(configs)
        ):
            return
        url = self._membership.leader_url

        def again(problem: Exception) -> None:
            log.warning("the tasks of %s are not written yet: %s", name, problem)
            later = min(after_seconds * 2, _RETRY_SECONDS_MAX)
            self._loop.soon(lambda: retry(later), after_seconds)

        def retry(later: float) -> None:
            if self._proposed.get(name) is configs:
                self._propose_tasks(name, configs, later)

        if self._membership.is_leader:
            try:
                self._write_tasks(name, configs)
            except (HerderProblem, NotWritten, LogFailed, TimeoutError) as problem:
                again(problem)
            return

        def ask() -> None:
            try:
                self._parts.peer.put_tasks(url, name, configs)
            except Exception as problem:  # whatever it was: else the tasks would never be written
                again(problem)

        self._pool.submit(ask)

    def _write_tasks(self, name: str, configs: Sequence[Config]) -> None:
        state = self._known(name)
        before = state.task_counts.get(name, 0)
        self._write(task_records(name, configs))
        for index in range(len(configs), before):
            self._stores.put_task_status(TaskId(name, index), None)


def _placed(status: WorkerStatus) -> Placed:
    said = Status(status.state, status.trace, status.engine, status.version, status.restarts_at_ms)
    return Placed(said, status.worker_id)


class RuntimeListener:
    """See Listener: the runtime's words for the worker."""

    def __init__(self, herder: Worker) -> None:
        self._herder = herder

    def connector_status(self, connector: str, status: Status) -> None:
        """See Listener."""
        self._herder.connector_status_told(connector, status)

    def task_status(self, task: TaskId, status: Status) -> None:
        """See Listener."""
        self._herder.task_status_told(task, status)

    def task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """See Listener."""
        self._herder.task_configs(connector, configs)

    def topic_used(self, connector: str, topic: str) -> None:
        """See Listener."""
        self._herder.topic_used(connector, topic)
