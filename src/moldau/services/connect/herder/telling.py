"""What the runtime says, as records of connect-status: by whom, in which generation, without secrets."""

from __future__ import annotations

import time
from collections.abc import Sequence

from moldau.services.connect.herder.parts import Parts
from moldau.services.connect.runtime.hiding import filled_in, without
from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.stores.configs import Config
from moldau.services.connect.stores.statuses import TopicUse, WorkerStatus


class Telling:
    """May be called on any thread."""

    def __init__(self, parts: Parts) -> None:
        self._settings, self._stores, self._membership = parts.settings, parts.stores, parts.membership
        self._worker_id = parts.worker_id
        self._secrets: dict[str, tuple[str, ...]] = {}
        """What was filled in for references of a connector and its tasks."""
        self._known_topics: set[tuple[str, str]] = set()

    def hide(self, name: str, config: Config, filled: Config) -> None:
        """What was filled in for the references in these settings is told to nobody."""
        secrets = {*self._secrets.get(name, ()), *filled_in(config, filled)}
        self._secrets[name] = tuple(sorted(secrets, key=len, reverse=True))

    def forget(self, name: str) -> None:
        """The connector is deleted."""
        self._secrets.pop(name, None)
        self.forget_topics(name)

    def forget_topics(self, name: str) -> None:
        """Topics that it uses from now on are told anew."""
        self._known_topics = {each for each in self._known_topics if each[0] != name}

    def _status(self, status: Status, connector: str) -> WorkerStatus:
        secrets = self._secrets.get(connector, ())
        return WorkerStatus(
            status.state,
            self._worker_id,
            max(self._membership.generation, 0),
            without(secrets, status.trace),
            status.version,
            status.engine,
            status.restarts_at_ms,
            without(secrets, status.engine_why),  # may say what failed on the other engine
        )

    def connector(self, name: str, status: Status) -> None:
        """How a connector goes."""
        if name in self._stores.configs().connectors:
            self._stores.put_connector_status(name, self._status(status, name))

    def task(self, task: TaskId, status: Status) -> None:
        """How a task goes."""
        if task.connector in self._stores.configs().connectors:
            self._stores.put_task_status(task, self._status(status, task.connector))

    def connector_stopped(self, name: str) -> None:
        """It does not run here any more."""
        if name in self._stores.configs().connectors:
            status = self._status(Status(State.UNASSIGNED), name)
            self._stores.put_connector_status(name, status, safe=True)

    def tasks_stopped(self, tasks: Sequence[TaskId]) -> None:
        """They do not run here any more, or are none any more."""
        configured = self._stores.configs()
        for each in tasks:
            if each in configured.tasks(each.connector):
                status = self._status(Status(State.UNASSIGNED), each.connector)
                self._stores.put_task_status(each, status, safe=True)
            else:
                self._stores.put_task_status(each, None)

    def topic_used(self, name: str, topic: str, task: int = 0) -> None:
        """See Listener."""
        if self._settings.topic_tracking_enable and (name, topic) not in self._known_topics:
            self._known_topics.add((name, topic))
            self._stores.put_topic(TopicUse(topic, name, task, int(time.time() * 1000)))
