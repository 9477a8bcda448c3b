"""Connectors' classes and instances, where the worker itself needs one: what kind it is, and for its
offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping

from moldau.connect.batch import Batch
from moldau.connect.errors import ConnectError
from moldau.connect.sink import Sink, SinkContext
from moldau.connect.source import Source, SourceContext
from moldau.services.connect.runtime.building import connector_class, connector_settings


def kind_of(config: Mapping[str, str]) -> str:
    """`source`, `sink`, or `unknown` where the class cannot be found."""
    try:
        return "source" if issubclass(connector_class(config), Source) else "sink"
    except ConnectError:
        return "unknown"


def started(name: str, config: Mapping[str, str]) -> Source | Sink:
    """An instance that reads and writes nothing; its caller stops it. ConnectError."""
    kind = connector_class(config)
    values = connector_settings(kind, config)
    made = kind()
    try:
        if isinstance(made, Sink):
            made.start(values, SinkContext(name, 0, lambda: False, _wait, _no_record))
        else:
            made.start(values, SourceContext(name, None, lambda: False, _wait, lambda: None))
    except BaseException as failure:
        made.stop()
        if isinstance(failure, Exception) and not isinstance(failure, ConnectError):
            raise ConnectError(f"the connector does not start: {failure}") from failure
        raise
    return made


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _no_record(batch: Batch, index: int, failure: Exception) -> None:
    raise ConnectError(str(failure))
