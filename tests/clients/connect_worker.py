"""A process with a local runtime: `python connect_worker.py CONFIG.json`, for tests that kill it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.runtime.local import LocalRuntime


class Herder:
    """Starts what connectors ask for; says on standard error what fails."""

    def __init__(self, worker: Mapping[str, str], connectors: Mapping[str, Mapping[str, str]]) -> None:
        self._connectors = connectors
        self._runtime = LocalRuntime(worker, self)
        for name, config in connectors.items():
            self._runtime.start_connector(name, config, State.RUNNING)

    def connector_status(self, connector: str, status: Status) -> None:
        self._say(connector, status)

    def task_status(self, task: TaskId, status: Status) -> None:
        self._say(f"{task.connector}-{task.task}", status)

    def _say(self, who: str, status: Status) -> None:
        print(who, status.state.value, status.trace, file=sys.stderr, flush=True)

    def topic_used(self, connector: str, topic: str) -> None:
        pass

    def task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        for number, each in enumerate(configs):
            config = {**self._connectors[connector], **each}
            self._runtime.start_task(TaskId(connector, number), config, State.RUNNING)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    herder = Herder(given["worker"], given["connectors"])
    print("started", flush=True)
    threading.Event().wait()
