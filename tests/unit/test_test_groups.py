"""Tests of one group run in one process: pytest-xdist and pytest agree on how a test carries its group.

pytest 9.2 and pytest-xdist 3.8 did not, and said nothing (pytest-xdist issue 1386).
"""

import os
import subprocess
import sys
from pathlib import Path

TWO_FILES = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(10))
def test_some(number):
    with open("processes", "a") as file:
        print(os.getpid(), file=file)
"""


def test_a_group_runs_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text(TWO_FILES)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        stdin=subprocess.DEVNULL,
        timeout=100,
        check=True,
    )
    processes = (tmp_path / "processes").read_text().split()
    assert len(processes) == 20
    assert len(set(processes)) == 1
