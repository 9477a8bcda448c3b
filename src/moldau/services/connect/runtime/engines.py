"""Which engine runs a connector's tasks, and why.

`moldau.connect.engine` of the connector, or else of the worker: local, spark, or auto. With auto, the
connector's instance decides for a sink (engine_choice.py) and writes it into its tasks' settings; a source
stays local.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.connect.sink import Sink
from moldau.connect.source import Source
from moldau.services.connect.runtime.rows import ENGINE_RECORDS_ROW, ENGINE_ROW, settings_of

LOCAL, SPARK, AUTO = "local", "spark", "auto"
TASK_ENGINE, TASK_WHY = "moldau.task.engine", "moldau.task.engine.why"
"""In a task's settings: what was chosen for it."""


class Engine(NamedTuple):
    """An engine, and why it is that."""

    name: str
    why: str


def asked_engine(config: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """local, spark, auto. ConnectError: there is no such engine."""
    return str(_setting(ENGINE_ROW, config, worker))


def auto_records(config: Mapping[str, str], worker: Mapping[str, str]) -> int:
    """`moldau.connect.engine.records`. ConnectError."""
    return int(_setting(ENGINE_RECORDS_ROW, config, worker))


def engine_of(
    kind: type[Source] | type[Sink], config: Mapping[str, str], worker: Mapping[str, str]
) -> Engine:
    """Of a task with these settings. ConnectError: there is no such engine."""
    asked = asked_engine(config, worker)
    if not issubclass(kind, Sink) and asked == AUTO:
        return Engine(LOCAL, "auto: what a source has to read is not known before it is read")
    if asked != AUTO:
        return Engine(asked, f"{ENGINE_ROW.name}={asked}")
    chosen = SPARK if config.get(TASK_ENGINE) == SPARK else LOCAL
    return Engine(chosen, config.get(TASK_WHY) or f"{ENGINE_ROW.name}=auto begins locally")


def _setting(row: Any, config: Mapping[str, str], worker: Mapping[str, str]) -> Any:
    given = config if config.get(row.name) else worker
    return settings_of((row,), given, "engine")[row.name]
