"""From a file to an app: what is wrong with the file is said with the line, and not with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.streams import App, AppError
from moldau.streams.loading import load_app
from moldau.streams.runner import run_app

APP = "from moldau.streams import App\napp = App('x')\n"

pytest.importorskip("pyspark")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("app = App('x'\n", r"^app\.py, line 1: SyntaxError: '\(' was never closed$"),
        (APP + "missing.thing()\n", r"^app\.py, line 3: NameError: name 'missing' is not defined$"),
        (APP + "import no_such_module\n", r"^app\.py, line 3: ModuleNotFoundError: No module named"),
        (APP + "from helper import one\n", r"^helper\.py, line 2: ZeroDivisionError: division by zero$"),
        (APP + "app.topic('t', valu='json')\n", r"^app\.py, line 3: TypeError: .*argument 'valu'$"),
        (APP + "app.topic('t', value='jsn')\n", r"^topic t: value='jsn' is no format"),
        ("x = 1\n", r"makes no app: it needs a line such as app = App\('name'\)$"),
        (APP + "other = App('y')\n", r"makes several apps \(app, other\): choose one with --app$"),
    ],
)
def test_a_file_that_is_no_app(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def one(): ...\n1 / 0\n")
    (tmp_path / "app.py").write_text(text)
    with pytest.raises(AppError, match=sentence):
        load_app(tmp_path / "app.py")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"{", "statement 1: '{' is not CREATE STREAM"),
        (b"\xff\xfe", "it is not text in UTF-8"),
        (b"CREATE STREAM a WITH (partitions = 'x') AS SELECT 1", "stream a: partitions = 'x' is no number"),
    ],
)
def test_sql_that_is_no_app(text: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_bytes(text)
    with pytest.raises(AppError, match=sentence):
        load_app(tmp_path / "app.sql")


def test_an_app_without_flows_starts_nothing() -> None:
    with pytest.raises(AppError, match="app empty has no flow: decorate a function"):
        run_app(App("empty", bootstrap_servers="127.0.0.1:1"))


def test_a_program_that_runs_an_app_ends_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP + "app.run()\n")
    ended = subprocess.run(
        [sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("moldau: app x has no flow: ")
    assert len(ended.stderr.splitlines()) == 1
