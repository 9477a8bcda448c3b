"""Which engine runs a connector's tasks.

`moldau.connect.engine` of the connector, or else of the worker: local, spark, or auto, which is local. A
source is read in the worker whatever is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect.sink import Sink
from moldau.connect.source import Source
from moldau.services.connect.runtime.rows import ENGINE_ROW, settings_of

LOCAL, SPARK = "local", "spark"


def engine_of(kind: type[Source] | type[Sink], config: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """`local` or `spark`. ConnectError: there is no such engine."""
    given = config if config.get(ENGINE_ROW.name) else worker
    chosen = settings_of((ENGINE_ROW,), given, "engine")[ENGINE_ROW.name]
    return SPARK if chosen == SPARK and issubclass(kind, Sink) else LOCAL
