"""A compacted log whose machine stops at every step of a clean and its swap: of every key the latest value is
found again.

Every run is decided by its seed; a failure names it.
"""

import contextlib

import pytest
from compaction_world import CompactionWorld

from moldau.testing.simulated_files import Crash

pytestmark = pytest.mark.usefixtures("compaction_kernel")


def stop_and_recover(world: CompactionWorld, power_cut: bool) -> None:
    """Stop, perhaps stop again during recovery, then check."""
    least = world.synced if power_cut else world.written
    while True:
        if power_cut:
            world.files.power_cut()
        else:
            world.files.process_kill()
        if world.random.random() < 0.5:
            world.crash_after(world.random.randint(0, 15))
        else:
            world.no_crash()
        with contextlib.suppress(Crash):
            world.start()
            break
    world.no_crash()
    world.check(least)


@pytest.mark.parametrize("power_cut", [True, False], ids=["power cut", "kill -9"])
@pytest.mark.parametrize("block", range(6))
def test_the_latest_values_survive_any_stop(block: int, power_cut: bool) -> None:
    cleans = 0
    for seed in range(block * 25, block * 25 + 25):
        world = CompactionWorld(seed)
        try:
            for _ in range(4):
                world.work(12)
                world.crash_after(world.random.randint(0, 150))
                with contextlib.suppress(Crash):
                    world.work(25)
                cleans += world.cleaner.report.totals.cleans
                stop_and_recover(world, power_cut)
                world.work(5)
                world.check(world.written)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert cleans > 25, "the logs were hardly ever cleaned, so nothing was tested"


@pytest.mark.parametrize("power_cut", [True, False], ids=["power cut", "kill -9"])
@pytest.mark.parametrize("seed", range(4))
def test_every_single_step_of_a_clean_may_be_the_last(seed: int, power_cut: bool) -> None:
    """The same history each time, and a stop one step later each time, until a clean has gone through."""
    step = 0
    while True:
        world = CompactionWorld(seed)
        while len(world.manager.get("accounts", 0).segments) < 5:
            world.turn()
        world.sync()
        world.turn()
        world.crash_after(step)
        try:
            world.timers.advance(20_000)
        except Crash:
            try:
                stop_and_recover(world, power_cut)
                world.timers.advance(20_000)
                world.check(world.written)
            except Exception as error:
                raise AssertionError(f"seed {seed}, step {step}: {error}") from error
            step += 1
            continue
        assert world.cleaner.report.totals.cleans, "nothing was cleaned"
        break
    assert step > 10
