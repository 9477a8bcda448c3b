"""How long each test of `make test` took, and what that says: `make test-times`.

The run's own process writes the file that MOLDAU_TEST_TIMES names when the run ends, also one that failed.
With pytest-xdist the reports of all workers arrive there. Times are wall clock: two workers on two cores
slow one another, so compare runs of one machine.

    {"wall_seconds": 1200.5, "tests": {"tests/unit/test_pointers.py::test_x": {
        "seconds": [setup, call, teardown], "worker": "gw0", "group": "spark", "ended": 17.5}}}

`ended` counts from the start of the run. run_order.py reads the same file to start what takes long first.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ENVIRONMENT = "MOLDAU_TEST_TIMES"
USUAL_FILE = Path("build/test-times.json")
SLOWEST = 20
_PHASES = ("setup", "call", "teardown")


def record_times(config: pytest.Config) -> None:
    """Records this run's times where MOLDAU_TEST_TIMES asks for it; not in the workers of pytest-xdist."""
    path = os.environ.get(ENVIRONMENT)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(TimesRecorder(config.rootpath / path), "moldau-run-times")


def plain_name(nodeid: str) -> tuple[str, str]:
    """A test's name without the group that pytest-xdist hangs on it, and that group or ''."""
    if nodeid.rfind("@") > nodeid.rfind("]"):
        name, _, group = nodeid.rpartition("@")
        return name, group
    return nodeid, ""


def read_times(path: Path) -> dict[str, Any] | None:
    """What the last run recorded; None without one that can be read."""
    try:
        times: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return times


class TimesRecorder:
    """A pytest plugin: adds up the three phases of each test, and writes them at the end of the run."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._start = clock()
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name, group = plain_name(report.nodeid)
        test = self._tests.setdefault(name, {"seconds": [0.0, 0.0, 0.0]})
        test["seconds"][_PHASES.index(report.when)] += round(report.duration, 4)
        test["worker"] = getattr(report, "worker_id", "main")
        test["group"] = group
        test["ended"] = round(self._clock() - self._start, 2)

    def pytest_sessionfinish(self) -> None:
        if not self._tests:
            return  # only collected, or interrupted before the first test: the last run's times stay
        wall = round(self._clock() - self._start, 2)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps({"wall_seconds": wall, "tests": self._tests}))
        unfinished.replace(self._path)


def report(times: Mapping[str, Any]) -> str:
    """The slowest tests, the sums of folders, files and groups, and how long each worker idled at the end."""
    tests: Mapping[str, Mapping[str, Any]] = times["tests"]
    seconds = {name: sum(test["seconds"]) for name, test in tests.items()}
    lines = [
        f"{len(tests):,} tests, {sum(seconds.values()):,.0f} s in {times['wall_seconds']:,.0f} s of the clock"
    ]
    ended: dict[str, float] = defaultdict(float)
    for test in tests.values():
        ended[test["worker"]] = max(ended[test["worker"]], test["ended"])
    for worker, at in sorted(ended.items()):
        busy = sum(seconds[name] for name, test in tests.items() if test["worker"] == worker)
        idle = times["wall_seconds"] - at
        lines.append(f"  {worker}: tests for {busy:,.0f} s, none for the last {idle:,.0f} s")
    lines += ["", f"the slowest {SLOWEST}, s (setup, call, teardown):"]
    for name in sorted(tests, key=lambda name: -seconds[name])[:SLOWEST]:
        setup, call, teardown = tests[name]["seconds"]
        lines.append(f"  {seconds[name]:7.1f}  ({setup:.1f}, {call:.1f}, {teardown:.1f})  {name}")
    lines += _sums("folder", seconds, _folder)
    lines += _sums("file", seconds, lambda name: name.partition("::")[0])
    lines += _sums("group", seconds, lambda name: tests[name]["group"] or "(none)")
    return "\n".join(lines)


def _folder(name: str) -> str:
    """tests/clients, but each room of tests/unit by itself."""
    folders = name.partition("::")[0].split("/")[:-1]
    return "/".join(folders[: 3 if folders[1:2] == ["unit"] else 2])


def _sums(word: str, seconds: Mapping[str, float], key: Callable[[str], str]) -> list[str]:
    counts: dict[str, int] = defaultdict(int)
    sums: dict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        counts[key(name)] += 1
        sums[key(name)] += value
    rows = sorted(sums, key=lambda row: -sums[row])[:SLOWEST]
    return ["", f"by {word}, s and tests:", *(f"  {sums[row]:7.1f}  {counts[row]:6,}  {row}" for row in rows)]


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else USUAL_FILE
    times = read_times(path)
    if times is None:
        print(f"{path} has no times: run make test first", file=sys.stderr)
        return 1
    print(report(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
