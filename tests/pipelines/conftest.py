"""A Spark session for the whole test process and a broker for each file of tests.

A session takes seconds to start and half a gigabyte, so all tests share one with two threads, and none may
stop it. What a test leaves running (queries, views) is cleared away after it.

To see whether a test is right in the first place, point it at another broker, such as Apache Kafka:

    python -m bench start kafka --dir D --port 9392
    MOLDAU_TEST_BOOTSTRAP=127.0.0.1:9392 pytest -n 0 tests/pipelines/test_sink_commit.py

Tests that kill a broker start one for themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent
TIMEOUT_SECONDS = 600
"""Spark starts in ten seconds on an idle machine and in a minute on a busy one; slow is not wrong."""
QUICK = {
    # Spark waits this long for a Python worker to exit, and polls for new data every 10 ms anyway.
    "spark.sql.streaming.stopTimeout": "20000",
}


def spark_missing() -> str:
    """Why Spark cannot run here; empty if it can."""
    try:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as missing:
        return f"{missing.name} is not installed (pip install 'moldau[spark]')"
    from moldau.streams.java import JavaMissing, java_home

    try:
        java_home()
    except JavaMissing as missing:
        return str(missing)
    return ""


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that needs Spark runs in one test process: two sessions would only wait for each other."""
    for item in items:
        if FOLDER in item.path.parents or "pipeline_survives" in item.name:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if FOLDER in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def spark_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The process's Spark session."""
    reason = spark_missing()
    if reason:
        pytest.skip(reason)
    from moldau.streams.session import LOG_SETTINGS, spark_session

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        **QUICK,
        "spark.sql.warehouse.dir": str(folder),
        "spark.local.dir": str(folder),
        # Java's second compiler pays off after minutes; without it a short session takes half the time.
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
        ),
    }
    session = spark_session("tests", master="local[2]", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def spark(spark_process: SparkSession) -> Iterator[SparkSession]:
    """The Spark session; queries that the test left running are stopped after it."""
    yield spark_process
    for query in spark_process.streams.active:
        query.stop()


class RunningBroker(Broker):
    """One that somebody else has started."""

    def __init__(self, address: str) -> None:
        super().__init__(process=True)
        self.bootstrap_servers = address


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in a process of its own, for all tests of a file: use topics with names of their own."""
    if address := os.environ.get("MOLDAU_TEST_BOOTSTRAP"):
        yield RunningBroker(address)
        return
    with Broker(process=True) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses."""
    name = re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:80]
    return f"{name}-{os.urandom(4).hex()}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for one query's checkpoint."""
    return str(tmp_path / "checkpoint")
