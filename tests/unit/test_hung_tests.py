"""A test whose timeout cannot end it, run by pytest in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import hung_tests
import pytest

LIMIT_SECONDS = 2
"""Time for the tests that do not hang, and for the end of their process, on a busy machine."""
DEAF = """
import signal, threading

def test_before():
    pass

def test_deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # as a wait in C is
    threading.Event().wait()

def test_after():
    pass
"""
WAITS_AFTERWARDS = """
import threading
import pytest

@pytest.fixture
def never():
    yield
    threading.Event().wait()

def test_deaf(never):
    threading.Event().wait()
"""


def run(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntimeout = {LIMIT_SECONDS}\n")
    (tmp_path / "test_some.py").write_text(text)
    folder = str(Path(hung_tests.__file__).parent)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "hung_tests", "-q", *options],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": folder,
            "MOLDAU_TEST_GRACE_SECONDS": str(LIMIT_SECONDS),
            "PYTEST_ADDOPTS": "",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_the_hung_one_is_named_and_the_others_run(tmp_path: Path) -> None:
    done = run(tmp_path, DEAF, "-n", "1")
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    assert "crashed while running 'test_some.py::test_deaf'" in done.stdout
    assert "in test_deaf" in done.stderr + done.stdout  # where it stood


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_a_teardown_that_waits_after_the_timeout(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, WAITS_AFTERWARDS, *options)
    assert done.returncode == 1
    assert "in never" in done.stderr + done.stdout


def test_a_test_in_time_is_left_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_one():\n    pass\n")
    assert done.returncode == 0
    assert "1 passed" in done.stdout
