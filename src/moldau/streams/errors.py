"""What can go wrong in an app, each as one sentence for the person who runs it."""

from __future__ import annotations

SPARK_MISSING = (
    "streams run on Spark, which is not installed: pip install 'moldau[spark]' "
    "(it brings pyspark, pyarrow and pandas)"
)


class StreamsError(Exception):
    """An app cannot run, or not go on; the message is a whole sentence."""


class AppError(StreamsError, ValueError):
    """The app's own code asks for something that makes no sense."""


class CheckpointRefused(StreamsError):
    """A folder of checkpoints belongs to something else than the flow that wants it."""


class Fenced(StreamsError):
    """Another driver has taken over; this one must not write any more."""


def require_spark() -> None:
    """Return if PySpark can be imported; else raise the sentence that says what to install."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as missing:
        raise StreamsError(f"{SPARK_MISSING}; Python says: {missing}") from None
