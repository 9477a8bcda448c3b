"""What `make test` records, what `make test-times` says of it, and the order that follows from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_order import expected_seconds, unit_of
from run_times import plain_name, read_times, report

TESTS = Path(__file__).parents[1]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import pytest
import run_times

def pytest_configure(config):
    run_times.record_times(config)

@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from run_order import LongestFirst
    return LongestFirst(config, log)
"""
A_FILE = """
import os
import time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.05)

def note(name):
    with open("order", "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], name, file=file)

@pytest.mark.parametrize("text", ["x", "a@b"])
def test_one(text, slow):
    note(__name__)

@pytest.mark.xdist_group("together")
def test_two():
    note("together")
"""
FILES = ("test_a.py", "test_b.py", "test_c.py")


def run_tests(folder: Path, processes: int) -> None:
    """The three files, recorded."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    for name in FILES:
        (folder / name).write_text(A_FILE)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", str(processes), "--dist", "loadgroup"],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": "", "MOLDAU_TEST_TIMES": "build/test-times.json"},
        stdin=subprocess.DEVNULL,
        timeout=100,
        check=True,
    )


def test_a_run_records_each_test_once_with_its_group(tmp_path: Path) -> None:
    run_tests(tmp_path, 2)
    times = read_times(tmp_path / "build/test-times.json")
    assert times is not None
    tests = times["tests"]
    assert set(tests) == {f"{file}::test_one[{text}]" for file in FILES for text in ("x", "a@b")} | {
        f"{file}::test_two" for file in FILES
    }
    for name, test in tests.items():
        setup, call, teardown = test["seconds"]
        assert setup >= (0.05 if "test_one" in name else 0)
        assert min(call, teardown) >= 0
        assert test["group"] == ("together" if "test_two" in name else "")
        assert 0 < test["ended"] <= times["wall_seconds"]


def test_a_file_and_a_group_stay_in_one_process(tmp_path: Path) -> None:
    run_tests(tmp_path, 2)
    workers: dict[str, set[str]] = {}
    for line in (tmp_path / "order").read_text().splitlines():
        worker, unit = line.split()
        workers.setdefault(unit, set()).add(worker)
    assert set(workers) == {"test_a", "test_b", "test_c", "together"}
    assert {len(which) for which in workers.values()} == {1}


def test_what_took_longest_is_dealt_first(tmp_path: Path) -> None:
    took = {"test_a.py": 1, "test_b.py": 3, "test_c.py": 2}
    tests = {f"{file}::test_one[x]": {"seconds": [0, seconds, 0]} for file, seconds in took.items()}
    tests["test_a.py::test_two"] = {"seconds": [4, 0, 0]}
    (tmp_path / "build").mkdir()
    (tmp_path / "build/test-times.json").write_text(json.dumps({"wall_seconds": 6, "tests": tests}))
    run_tests(tmp_path, 1)
    order = [line.split()[1] for line in (tmp_path / "order").read_text().splitlines()]
    assert list(dict.fromkeys(order)) == ["together", "test_b", "test_c", "test_a"]


@pytest.mark.parametrize(
    ("nodeid", "plain", "unit"),
    [
        ("tests/unit/test_a.py::test_b", ("tests/unit/test_a.py::test_b", ""), "tests/unit/test_a.py"),
        ("tests/a.py::T::b[x@y]", ("tests/a.py::T::b[x@y]", ""), "tests/a.py"),
        ("tests/a.py::b[x@y]@spark", ("tests/a.py::b[x@y]", "spark"), "spark"),
        ("tests/a.py::b@spark", ("tests/a.py::b", "spark"), "spark"),
    ],
)
def test_names_and_units(nodeid: str, plain: tuple[str, str], unit: str) -> None:
    assert plain_name(nodeid) == plain
    assert unit_of(nodeid) == unit


def test_unseen_tests_are_judged_by_their_folder() -> None:
    known = {"tests/unit/a.py::b": 7.0}
    assert expected_seconds(["tests/unit/a.py::b", "tests/torture/a.py::b@cluster"], known) == 12.0
    assert expected_seconds(["tests/unit/a.py::c"], known) < expected_seconds(
        ["tests/clients/a.py::c"], known
    )


def test_the_report_names_the_slowest_and_adds_up() -> None:
    tests = {
        f"tests/unit/log/test_{file}.py::test_{number}": {
            "seconds": [0.5, float(number), 0.0],
            "worker": f"gw{number % 2}",
            "group": "zookeeper" if file == "b" else "",
            "ended": 100.0 - 10 * (number % 2),
        }
        for file in "ab"
        for number in range(30)
    }
    lines = report({"wall_seconds": 101.0, "tests": tests}).splitlines()
    assert lines[0] == "60 tests, 900 s in 101 s of the clock"
    assert lines[1:3] == [
        "  gw0: tests for 435 s, none for the last 1 s",
        "  gw1: tests for 465 s, none for the last 11 s",
    ]
    slowest = lines[lines.index("the slowest 20, s (setup, call, teardown):") + 1 :][:20]
    assert slowest[0] == "     29.5  (0.5, 29.0, 0.0)  tests/unit/log/test_a.py::test_29"
    assert slowest[-1].endswith("test_b.py::test_20")
    assert "    900.0      60  tests/unit/log" in lines
    assert "    450.0      30  zookeeper" in lines


def test_times_of_no_run_are_none(tmp_path: Path) -> None:
    assert read_times(tmp_path / "missing.json") is None
    (tmp_path / "torn.json").write_text('{"wall_sec')
    assert read_times(tmp_path / "torn.json") is None
