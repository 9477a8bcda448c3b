"""`moldau demo-connect` as a newcomer runs it, with fewer departures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.tools.demo.connect.check import difference
from moldau.tools.demo.connect.database import require_postgres
from moldau.tools.shared.errors import CommandError


def test_the_files_have_the_table_and_a_notebook_reads_them(tmp_path: Path) -> None:
    try:
        require_postgres()
    except CommandError as missing:
        pytest.skip(str(missing))
    command = [sys.executable, "-m", "moldau", "demo-connect", "--flights", "3000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows as SQL has them" in done.stdout
    assert json.loads((tmp_path / "delays.ipynb").read_text())["nbformat"] == 4
    assert (tmp_path / "delays.png").stat().st_size > 1000


def test_a_difference_is_named() -> None:
    assert difference([(1, "a")], [(1, "a")]) == ""
    assert "the files have 1 rows, the table 2" in difference([(1, "a")], [(1, "a"), (2, "b")])
    assert "row 2 is" in difference([(1, "a"), (2, "c")], [(1, "a"), (2, "b")])
