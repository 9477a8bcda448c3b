"""Creates a session for an app, prepared for the app's code and its end.

* The app's module is in no package: its definitions are pickled by value, so that they reach executors on
  other machines; so are modules beside it.
* Ctrl-C in a terminal goes to every process of the program. It would end Spark's Python workers, and with
  them the micro-batch that is to be finished; so Java, their parent, gets a process group of its own.
* Spark's log lines about failed Python statements are switched off: the exception says the same.
"""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from moldau.streams.errors import StreamsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.streams.app import App
    from moldau.streams.spark_log import SparkLog

JAVA_ENDED_EARLY = "JAVA_GATEWAY_EXITED"
JAVA_ENDS_SECONDS = 2.0
"""Its connections are gone a moment before it is."""


@contextmanager
def started_session(
    app: App, master: str | None, spark_log: SparkLog | None = None
) -> Iterator[SparkSession]:
    """The session; stopped at the end if it was created here, with the processes' standard error in
    `spark_log`.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from moldau.streams.java import JavaMissing
    from moldau.streams.session import spark_session

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    is_new = (SparkSession.getActiveSession() or SparkSession._instantiatedSession) is None
    try:
        with java_in_a_group_of_its_own(None if spark_log is None else spark_log.writing):
            session = spark_session(app.name, master=master, settings=app.settings)
    except JavaMissing as missing:
        raise StreamsError(str(missing)) from None
    except PySparkRuntimeError as failure:
        if failure.getCondition() != JAVA_ENDED_EARLY:
            raise
        raise StreamsError(
            "Java, on which Spark runs, ended before it was ready: its messages say why (JAVA_HOME names the "
            "Java to use; --spark spark.driver.memory=2g gives it more or less memory)"
        ) from None
    with said_if_ended(getattr(session.sparkContext._gateway, "proc", None)):
        try:
            yield session
        finally:
            if is_new:
                session.stop()


@contextmanager
def said_if_ended(java: subprocess.Popen[bytes] | None) -> Iterator[None]:
    """If Java has ended meanwhile, a message instead of the errors that each call to it then raises.

    `java` is None if Java was started by another program.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        yield
    except (OSError, Py4JError):
        if java is None or not _has_ended(java):
            raise
        raise StreamsError(
            "Java, which does Spark's work, has ended: it was killed, or ran out of memory (then its "
            "messages say so; --spark spark.driver.memory=4g gives it more). Started again, every flow goes "
            "on from its checkpoint"
        ) from None


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(JAVA_ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def java_in_a_group_of_its_own(stderr: int | None = None) -> Iterator[None]:
    """Start processes of PySpark in a process group that does not get a terminal's Ctrl-C.

    Their standard error is the descriptor `stderr`, or the program's own.
    """
    from pyspark import java_gateway

    before = java_gateway.Popen  # type: ignore[attr-defined]
    if sys.platform != "win32":
        apart = functools.partial(subprocess.Popen, process_group=0, stderr=stderr)
        java_gateway.Popen = apart  # type: ignore[attr-defined,assignment]
    try:
        yield
    finally:
        java_gateway.Popen = before  # type: ignore[attr-defined]


def pickle_by_value(folder: Path, known: set[str]) -> None:
    """Pickle this folder's modules, imported since `known` was taken, by value."""
    from pyspark.cloudpickle import register_pickle_by_value

    for name in set(sys.modules) - known:
        module = sys.modules[name]
        if isinstance(module, ModuleType) and _lies_in(module, folder):
            register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _lies_in(module: ModuleType, folder: Path) -> bool:
    path = getattr(module, "__file__", None)
    if not path or "site-packages" in path:
        return False
    return folder in Path(path).resolve().parents
