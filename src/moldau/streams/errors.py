"""Errors of apps, each a sentence for the user."""

from __future__ import annotations

import sys
from types import TracebackType

SPARK_MISSING = (
    "streams run on Spark, which is not installed: pip install 'moldau[spark]' "
    "(it brings pyspark, pyarrow and pandas)"
)


class StreamsError(Exception):
    """An app cannot run or continue."""


class AppError(StreamsError, ValueError):
    """The app's own code is wrong."""


class SchemaMissing(StreamsError):
    """The registry has no schema for a topic, or not this version; a flow of the app may register it."""


class CheckpointRefused(StreamsError):
    """A checkpoint folder belongs to something else than the flow that uses it."""


class Fenced(StreamsError):
    """Another driver has taken over; this one must not write any more."""


def require_spark() -> None:
    """Return if PySpark can be imported; else raise an error that says what to install."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as missing:
        raise StreamsError(f"{SPARK_MISSING}; Python says: {missing}") from None


def say_uncaught() -> None:
    """Print an uncaught StreamsError as its message, without a traceback."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _say


def _say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, StreamsError):
        print(f"moldau: {error}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)
