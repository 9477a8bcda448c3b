"""`spark_session`: a Spark session with defaults that suit streams between topics.

Without a master it is a session inside this process (`local[*]`), bound to the loopback interface, with no
web page, few log lines and its own interpreter for workers; with a master, a session on that cluster. Started
by `spark-submit`, the master and settings given there hold. Every default may be overridden by `settings`.

The defaults were found by measuring. Of a micro-batch with nothing to compute (150-340 ms out of the box)
they leave 80-170 ms:

* Python workers are spoken to over Unix sockets instead of TCP;
* on local disks, checkpoints are written with Java's own rename: the stock file manager starts a process
  (`chmod`) for each of the four files of a micro-batch;
* as many shuffle partitions as there are threads, instead of 200: each costs a task and, in a stateful query,
  a state store with files of its own. A query keeps the number that its checkpoint began with;
* state lives in RocksDB with changelog checkpoints: only what changed is written at the end of a micro-batch.

Not here: flows and their checkpoints (app.py); which Java it is (java.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.streams.interpreter import worker_python
from moldau.streams.java import java_home
from moldau.streams.worker_check import see_that_workers_have_moldau

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REDACTED = r"(?i)secret|password|passphrase|token|access[.]?key|jaas|keystore[.]key|key[.]pem|user[.]info"
"""Which options Spark hides in plans, its web page, event log and messages: its own default, and those of
Kafka's clients that it lets through (keys in PEM, pass phrases, the registry's logins)."""

EVERYWHERE: Mapping[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Windows and parsed timestamps must not depend on where the program runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
}
ON_THIS_MACHINE: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
SHUFFLE_PARTITIONS_MAX = 16
LOCAL_THREADS = re.compile(r"local(?:\[(\*|\d+)(?:,.*)?\])?")
LOOPBACK_CLUSTER = re.compile(r"local-cluster\[.*\]|spark://(?:127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+")
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def spark_session(
    app_name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The process's Spark session, made if there is none yet, with the format "moldau" registered.

    A session that exists already is returned with those of `settings` changed that can change at run time.
    Raises `moldau.streams.java.JavaMissing` where Spark cannot run, and StreamsError where its workers are
    told (by PYSPARK_PYTHON) to run in a Python without Moldau.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from pyspark_moldau import DefaultSource

    builder = SparkSession.builder.appName(app_name)
    # Not getActiveSession: that is the calling thread's, and another thread may have made the session.
    if SparkContext._active_spark_context is None:
        submitted = _submitted_settings()
        if submitted is None:
            os.environ["JAVA_HOME"] = java_home()
        chosen_master = master or (submitted or {}).get("spark.master") or "local[*]"
        builder = builder.master(chosen_master)
        defaults = default_settings(chosen_master)
        if "spark.log.level" in (settings or {}):
            defaults.pop("spark.driver.extraJavaOptions", None)
        for name, value in defaults.items():
            if name not in (submitted or {}):
                builder = builder.config(name, value)
        _use_this_interpreter(workers_too=is_on_this_machine(chosen_master))
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    context = session.sparkContext
    on_this_machine = is_on_this_machine(context.master or "")
    see_that_workers_have_moldau(context, on_this_machine=on_this_machine, python=worker_python())
    session.dataSource.register(DefaultSource)
    return session


def default_settings(master: str) -> dict[str, str]:
    """What we set for this master unless the user says otherwise."""
    chosen = dict(EVERYWHERE)
    if is_on_this_machine(master):
        chosen |= ON_THIS_MACHINE
        # Says errors only; spark.log.level would be announced with a line of its own.
        chosen["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    local = LOCAL_THREADS.fullmatch(master)
    if local:
        threads = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
        chosen["spark.sql.shuffle.partitions"] = str(min(threads, SHUFFLE_PARTITIONS_MAX))
    return chosen


def is_on_this_machine(master: str) -> bool:
    """Whether everything that belongs to the session runs on this machine."""
    return bool(LOCAL_THREADS.fullmatch(master) or LOOPBACK_CLUSTER.fullmatch(master))


def _submitted_settings() -> dict[str, str] | None:
    """The settings that spark-submit was given; None if it did not start this program."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # only then does SparkConf see what the JVM was started with
    return dict(SparkConf().getAll())


def _use_this_interpreter(*, workers_too: bool) -> None:
    # Spark's own default is whatever `python3` the PATH gives, which need not have our packages. On the
    # driver Spark looks for formats with PYSPARK_DRIVER_PYTHON; other machines have paths of their own.
    python = worker_python()
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    if not workers_too:
        return
    os.environ.setdefault("PYSPARK_PYTHON", python)
    # Else Spark looks the host's name up, and warns about what it finds.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
