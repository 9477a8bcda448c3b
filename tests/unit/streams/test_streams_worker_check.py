"""A Python without Moldau, in which Spark would work, is noticed, replaced where that can be, and named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.streams import StreamsError
from moldau.streams.worker_check import has_moldau, see_that_workers_have_moldau


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another interpreter, that has nothing installed."""
    folder = tmp_path_factory.mktemp("other")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin" / "python3")


def test_who_has_moldau(other: str) -> None:
    assert has_moldau(sys.executable)
    assert not has_moldau(other)
    assert not has_moldau("/nowhere/python3")


def test_a_session_of_the_users_is_given_the_right_python(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context: Any = SimpleNamespace(pythonExec="python3")
    monkeypatch.setenv("PATH", str(Path(other).parent))
    see_that_workers_have_moldau(context, on_this_machine=True, python="/mine/python")
    assert context.pythonExec == "/mine/python"
    see_that_workers_have_moldau(context, on_this_machine=False, python="/mine/python")


def test_one_that_was_chosen_is_left_alone_and_named(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", other)
    context: Any = SimpleNamespace(pythonExec=other)
    with pytest.raises(
        StreamsError, match=rf"Spark works in {other}, which has no Moldau.*PYSPARK_PYTHON'\] ="
    ):
        see_that_workers_have_moldau(context, on_this_machine=True, python="/mine/python")
    assert context.pythonExec == other


def test_on_a_cluster_the_path_is_not_ours_to_say(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", str(Path(other).parent))
    context: Any = SimpleNamespace(pythonExec="python3")
    with pytest.raises(StreamsError, match=r"Spark works in python3 \(/.*python3\).*machines of the cluster"):
        see_that_workers_have_moldau(context, on_this_machine=False, python="/mine/python")
