"""A part that starts late: its modules are imported by a worker, and it begins on the loop."""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.common.core.clock import ManualClock
from moldau.common.core.late_start import LateStart
from moldau.common.core.timers import ManualTimers

MODULE = "imported_by_a_worker"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that says by which thread it was imported."""
    (tmp_path / f"{MODULE}.py").write_text("import threading\nTHREAD = threading.get_ident()\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield MODULE
    sys.modules.pop(MODULE, None)


async def started(module_name, *, cancels_at_ms=None):
    """The threads that imported and began; None: it has not begun."""
    timers, begun = ManualTimers(ManualClock()), []
    with ThreadPoolExecutor(1) as workers:
        imported = asyncio.Event()
        late = LateStart(
            asyncio.get_running_loop(),
            workers,
            timers,
            100,
            lambda: (begun.append(threading.get_ident()), imported.set()),
            [module_name],
        )
        timers.advance(99)
        await asyncio.sleep(0)
        assert module_name not in sys.modules
        if cancels_at_ms == 99:
            late.cancel()
        timers.advance(1)
        if cancels_at_ms == 100:
            late.cancel()
        if cancels_at_ms is None:
            await imported.wait()
        workers.shutdown()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return begun


def test_a_worker_imports_and_the_loop_begins(module):
    assert asyncio.run(started(module)) == [threading.get_ident()]
    assert threading.get_ident() != sys.modules[module].THREAD


@pytest.mark.parametrize("at_ms", [99, 100])
def test_what_is_cancelled_does_not_begin(module, at_ms):
    assert not asyncio.run(started(module, cancels_at_ms=at_ms))
    assert (module in sys.modules) is (at_ms == 100)


def test_a_module_that_is_not_there_is_told_by_the_part(module):
    assert asyncio.run(started("no_module_of_this_name")) == [threading.get_ident()]
