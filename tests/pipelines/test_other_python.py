"""Programs that are run as `.venv/bin/python job.py` where another `python3` stands first on the PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing import Broker

pytestmark = pytest.mark.timeout(900)

BEGIN = """
import os, sys
from pyspark.sql import SparkSession

def count(spark):
    options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": "t"}
    try:
        return spark.read.format("moldau").options(**options).load().count()
    except Exception as failure:
        return "DATA_SOURCE_NOT_FOUND" if "DATA_SOURCE_NOT_FOUND" in str(failure) else str(failure)

def session():
    return SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
"""
OURS = """
from moldau.streams.session import spark_session
print(count(spark_session("job", master="local[1]")))
"""
THE_USERS_AND_THEN_OURS = """
print(count(session()))
from moldau.streams.session import spark_session
print(count(spark_session("job")))
"""
THE_ONE_LINE = """
os.environ["PYSPARK_PYTHON"] = sys.executable
print(count(session()))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A PATH whose python3 has neither Moldau nor anything else, and nothing that names another one."""
    folder = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return {**kept, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def topic_t(broker: Broker) -> Broker:
    """A broker with the topic that the programs read."""
    broker.create_topic("t")
    return broker


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (OURS, ["0"]),
        (THE_USERS_AND_THEN_OURS, ["DATA_SOURCE_NOT_FOUND", "0"]),
        (THE_ONE_LINE, ["0"]),
    ],
    ids=["our session", "the user's, then ours", "the one line"],
)
def test_the_format_is_found(
    program: str, printed: list[str], topic_t: Broker, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(BEGIN + program)
    ended = subprocess.run(
        [sys.executable, tmp_path / "job.py", topic_t.bootstrap_servers],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == printed, ended.stderr
