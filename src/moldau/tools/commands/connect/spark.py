"""The worker's Spark session, made when the first connector wants that engine.

Which settings it has is told in docs/connect.md, "Engines".
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Mapping
from typing import Any

from moldau.connect.errors import ConnectError

_MASTER = "moldau.connect.spark.master"
_CONF = "moldau.connect.spark.conf."


def spark_of(texts: Mapping[str, str]) -> Callable[[], Any] | None:
    """Gives the session of a worker with these settings; None where Spark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        return None
    lock = threading.Lock()
    made: list[Any] = []  # kept: the active session may be a query's copy later
    settings = {name.removeprefix(_CONF): text for name, text in texts.items() if name.startswith(_CONF)}

    def session() -> Any:
        from moldau.streams import StreamsError
        from moldau.streams.java import JavaMissing
        from moldau.streams.session import spark_session

        with lock:  # several tasks may ask at once
            if made:
                return made[0]
            try:
                made.append(spark_session("moldau-connect", master=texts.get(_MASTER), settings=settings))
            except (StreamsError, JavaMissing) as problem:
                raise ConnectError(f"Spark cannot start: {problem}") from problem
            return made[0]

    return session
