"""docs/streams.md: what a reader pastes works."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau.streams import App
from moldau.testing import Broker
from moldau.tools.main import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "streams.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    (tmp_path / "app.py").write_text(blocks("python")[0])
    return tmp_path


def test_the_app_and_its_commands(
    spark: SparkSession,
    broker: Broker,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP", broker.bootstrap_servers)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    said: dict[str, str] = {}
    for command in blocks("sh")[0].splitlines():
        if command.startswith("moldau serve"):
            continue
        if command.startswith("moldau streams"):  # in this process, which has a session
            assert main(command.split()[1:]) == 0, capsys.readouterr().err
            said[command] = capsys.readouterr().out
        else:
            answer = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
            assert answer.returncode == 0, f"{command}: {answer.stderr}"
            said[command] = answer.stdout
    assert '"dep_delay":90.0' in said["moldau consume late-flights -e"]
    by_carrier = said["moldau consume delay-by-carrier -e -f '%k %v\\n'"]
    assert 'UA {"carrier":"UA","delay":5.0,"flights":2}' in by_carrier
    assert "batch:      0" in said["moldau streams describe delays"]


def test_the_test(spark: SparkSession, folder: Path) -> None:
    (folder / "test_app_of_the_page.py").write_text(blocks("python")[1])
    importlib.import_module("test_app_of_the_page").test_late_flights()


def test_the_sql() -> None:
    app = App("page")
    assert [flow.name for flow in app.sql(blocks("sql")[0])] == ["late", "delay_by_carrier"]
