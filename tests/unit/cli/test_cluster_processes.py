"""Processes that outlive the command: recorded, found again, and never taken for somebody else's."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.tools.cluster.processes import (
    FILE,
    GONE,
    PAUSED,
    RUNNING,
    Process,
    alive,
    forget,
    recorded,
    spawn,
)

SLEEPS = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('up', flush=True); time.sleep(600)",
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    process = recorded(tmp_path)
    if process is not None:
        process.send(signal.SIGKILL)


def started(folder: Path, command: list[str]) -> Process:
    process = spawn(command, folder, folder / "log")
    until(lambda: b"up" in (folder / "log").read_bytes())
    return process


def until(condition: object) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_another_command_finds_it_and_ends_it(folder: Path) -> None:
    started(folder, SLEEPS)
    found = alive(folder)
    assert found is not None
    assert found.state() == RUNNING
    assert found.end(60)
    assert found.state() == GONE
    assert alive(folder) is None
    assert recorded(folder) == found  # what it was stays known until it is forgotten
    forget(folder)
    assert recorded(folder) is None


def test_a_later_process_with_the_same_number_is_another(folder: Path) -> None:
    (folder / FILE).write_text(json.dumps({"pid": os.getpid(), "started": "long ago"}))
    found = recorded(folder)
    assert found is not None
    assert found.state() == GONE
    found.send(signal.SIGKILL)  # or this would be the end of the test


def test_a_paused_process_is_seen_and_can_be_ended(folder: Path) -> None:
    process = started(folder, SLEEPS)
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: process.state() == PAUSED)
    assert process.end(60)


def test_what_does_not_end_is_killed(folder: Path) -> None:
    process = started(folder, STUBBORN)
    assert not process.end(0.2)
    assert process.state() == GONE


def test_what_ends_at_once_is_dead_though_nobody_has_waited_for_it(folder: Path) -> None:
    process = spawn([sys.executable, "-c", "print('no')"], folder, folder / "log")
    until(lambda: process.state() == GONE)
    assert (folder / "log").read_text() == "no\n"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 3}', '{"pid": "x", "started": ""}'])
def test_a_damaged_record_is_no_process(folder: Path, text: str) -> None:
    (folder / FILE).write_text(text)
    assert recorded(folder) is None
    assert alive(folder) is None
