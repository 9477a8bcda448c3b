"""A worker in the foreground: event loop, signals, ready line, exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from moldau.client.errors import ClientError
from moldau.common.core.logs import set_up
from moldau.common.settings.rows import SettingError
from moldau.connect.errors import ConnectError
from moldau.services.connect.herder.interface import HerderProblem
from moldau.services.connect.running import Running, serve_connect
from moldau.services.connect.runtime.interface import State
from moldau.services.connect.settings import WorkerConfiguration, worker_configuration
from moldau.services.connect.stores.kafka_log import LogFailed
from moldau.services.connect.stores.topics import TopicRefused
from moldau.services.http.server import ListenError, in_own_thread, run_until_signal
from moldau.tools.commands.connect.spark import spark_of
from moldau.tools.commands.connect.worker_files import ConnectorFile
from moldau.tools.shared.errors import FAILED, MISUSED

_TARGETS = {"RUNNING": State.RUNNING, "PAUSED": State.PAUSED, "STOPPED": State.STOPPED}


class ConnectorRefused(Exception):
    """A connector of the command line is not valid."""


def run_worker(
    texts: Mapping[str, str], connectors: Sequence[ConnectorFile], *, file: Path | None, as_json: bool
) -> int:
    """Run until SIGTERM or SIGINT (0); a sentence and 1 where it cannot start, 2 for a wrong setting."""
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    try:
        configuration = worker_configuration(texts)
        run_until_signal(lambda: _served(configuration, connectors, as_json))
    except SettingError as problem:
        where = f"{file}: " if file is not None else ""
        print(f"moldau: {where}{problem.sentence}", file=sys.stderr)
        return MISUSED
    except (ListenError, TopicRefused, ClientError, LogFailed, TimeoutError, ConnectorRefused) as problem:
        print(f"moldau: {problem}", file=sys.stderr)
        return FAILED
    return 0


@asynccontextmanager
async def _served(
    configuration: WorkerConfiguration, connectors: Sequence[ConnectorFile], as_json: bool
) -> AsyncIterator[Running]:
    async with serve_connect(configuration, spark_of(configuration.texts)) as running:
        for each in connectors:
            await in_own_thread(lambda each=each: _create(running, each))  # type: ignore[misc]
        _say_ready(running, configuration, as_json)
        yield running


def _create(running: Running, connector: ConnectorFile) -> None:
    try:
        infos = running.validate(connector.config)
        if infos.error_count:
            lines = "\n  ".join(infos.sentences())
            raise ConnectorRefused(f"the connector {connector.name} is not valid:\n  {lines}")
        target = None if connector.initial_state is None else _TARGETS.get(connector.initial_state)
        running.worker.put_config(connector.name, connector.config, may_exist=True, target=target)
    except (HerderProblem, ConnectError) as problem:
        raise ConnectorRefused(f"the connector {connector.name} cannot be started: {problem}") from None


def _say_ready(running: Running, configuration: WorkerConfiguration, as_json: bool) -> None:
    settings = configuration.settings
    if as_json:
        ready = {
            "event": "ready",
            "addresses": list(running.server.addresses),
            "bootstrap_servers": settings.bootstrap_servers,
            "group_id": settings.group_id or None,
            "pid": os.getpid(),
        }
        print(json.dumps(ready), flush=True)
        return
    kind = f"of the group {settings.group_id}" if configuration.is_distributed else "alone"
    print(
        f"the Connect worker is ready at {', '.join(running.server.addresses)}, {kind}, with the cluster at "
        f"{settings.bootstrap_servers}",
        flush=True,
    )
