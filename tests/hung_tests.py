"""A test that hangs is named, and the run goes on.

pytest's timeout is a signal: Python hears it between two byte codes, and it comes once. A test that waits
in C (a client's close, a lock) never hears it; and what a teardown waits for after it, it would wait for
until the run is ended from outside, which names nothing. So some time after a test's timeout its process
writes where every thread stands and ends. With pytest-xdist that fails the one test, and another process
takes the rest.

Not here: what ends a slow test (pytest-timeout, the setting `timeout`).
"""

import faulthandler
import os
from collections.abc import Iterator
from typing import IO, Any

import pytest

# For the teardown after the timeout.
GRACE_SECONDS = float(os.environ.get("MOLDAU_TEST_GRACE_SECONDS", "120"))
_STDERR: pytest.StashKey[IO[str]] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    # The process's own: pytest shows what a test writes to stderr when the test ends, and this one does not.
    config.stash[_STDERR] = os.fdopen(os.dup(2), "w")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _end_process_in(timeout_seconds(item) + GRACE_SECONDS, item.config)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> Iterator[None]:
    result = yield  # pytest itself cancels here, for a debugger that may start
    if isinstance(node, pytest.Item):
        _end_process_in(timeout_seconds(node) + GRACE_SECONDS, node.config)
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):  # of pytest-xdist, whose run waits for its last word
        _end_process_in(GRACE_SECONDS, session.config)


def timeout_seconds(item: pytest.Item) -> float:
    """How long the test may take by its mark or by the setting; 0 where neither says."""
    marker = item.get_closest_marker("timeout")
    told: Any = None
    if marker is not None:
        told = marker.kwargs.get("timeout", marker.args[0] if marker.args else None)
    if told is None:
        told = item.config.getoption("timeout", None) or item.config.getini("timeout")
    return float(told or 0)


def _end_process_in(seconds: float, config: pytest.Config) -> None:
    faulthandler.dump_traceback_later(seconds, exit=True, file=config.stash[_STDERR])
