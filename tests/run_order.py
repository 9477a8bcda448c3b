"""In which order the workers of `make test` take tests, and which go together.

pytest-xdist's `loadgroup` deals single tests to the workers: a file's broker or Spark session would then be
started by each of them, and its books are kept for 19,000 units. Here a unit is a group (the mark
`xdist_group`) or a file, and the one that takes longest is dealt first, so that the workers end together.
How long is known from the last run (`run_times.py`); of tests it has not seen, their folder is asked.

Not here: `pytest` without `-n`, which keeps the order of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from run_times import USUAL_FILE, plain_name, read_times
from xdist.scheduler import LoadGroupScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController

# Seconds a test, about, where there was no run before: what starts processes takes long.
SECONDS_BY_FOLDER = {
    "tests/torture": 5.0,
    "tests/pipelines": 3.0,
    "tests/clients": 0.6,
    "tests/sim": 0.6,
    "tests/kit": 2.0,
}
SECONDS_ELSEWHERE = 0.02


def unit_of(nodeid: str) -> str:
    """What a test is dealt with: its group, or its file."""
    name, group = plain_name(nodeid)
    return group or name.partition("::")[0]


def expected_seconds(nodeids: Iterable[str], known: Mapping[str, float]) -> float:
    """How long these tests take together, by the last run or by their folders."""
    return sum(_expected(plain_name(nodeid)[0], known) for nodeid in nodeids)


def _expected(name: str, known: Mapping[str, float]) -> float:
    seconds = known.get(name)
    if seconds is None:
        seconds = SECONDS_BY_FOLDER.get("/".join(name.split("/", 2)[:2]), SECONDS_ELSEWHERE)
    return seconds


class LongestFirst(LoadGroupScheduling):
    """Deals groups and files, the longest first."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        recorded = read_times(config.rootpath / USUAL_FILE)
        tests = recorded["tests"] if recorded else {}
        self._known = {name: sum(test["seconds"]) for name, test in tests.items()}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=self._left)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _left(self, unit: str) -> float:
        left = [nodeid for nodeid, complete in self.workqueue[unit].items() if not complete]
        return expected_seconds(left, self._known)
