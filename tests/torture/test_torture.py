"""The short form: every scenario once, in both durabilities taken together; `make torture` is the long one.

Of the pipelines only the one on a cluster: it costs what one inside a process does, and has more to kill.

MOLDAU_TEST_BROKER=kafka pytest tests/torture      whether a scenario is right in the first place
MOLDAU_TORTURE_SEED=7 pytest tests/torture         other seeds
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from torture.rounds import Round
from torture.scenarios import SCENARIOS, durability
from torture.victim import KIND

SEED = int(os.environ.get("MOLDAU_TORTURE_SEED", "5"))


@pytest.mark.client
@pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")
@pytest.mark.parametrize(
    ("scenario", "choice"),
    [
        ("transactions", "group"),
        ("dying-producers", "os"),
        ("copy-classic", "os"),
        ("copy-consumer", "group"),
        ("compaction", "os"),
        ("fresh-start", "group"),
    ],
)
def test_promises_survive_kill_9(scenario: str, choice: str, tmp_path: Path) -> None:
    with Round(SEED, tmp_path, durability(KIND, choice)) as torture:
        print(SCENARIOS[scenario].short(torture))


@pytest.mark.client
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("cluster")
@pytest.mark.skipif(sys.platform != "linux", reason="looks for child processes in /proc")
def test_a_cluster_survives_kill_9_and_a_stop(tmp_path: Path) -> None:
    """Three brokers: a leader is killed, another one stopped in order, both come back."""
    test_promises_survive_kill_9("cluster-kills", "os", tmp_path)


@pytest.mark.client
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
def test_a_pipeline_survives_kill_9(tmp_path: Path) -> None:
    """The driver, an executor and the broker are killed."""
    test_promises_survive_kill_9("pipeline-cluster", "group", tmp_path)
