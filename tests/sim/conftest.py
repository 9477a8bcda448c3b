"""Which seeds the simulation's tests run.

A test that takes an argument `seed` runs once for each: as many as `@pytest.mark.seeds(12)` says, four when
nothing does. MOLDAU_SIM_SEEDS=1000 makes it a thousand, MOLDAU_SIM_SEEDS=5000:6000 those from 5000 on, and
MOLDAU_SIM_SEED=17 that one alone.
"""

from __future__ import annotations

import os

import pytest

SEEDS = 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames and not _names_seeds_itself(metafunc.definition):
        mark = metafunc.definition.get_closest_marker("seeds")
        metafunc.parametrize("seed", _seeds(mark.args[0] if mark else SEEDS))


def _names_seeds_itself(item: pytest.Item) -> bool:
    return any("seed" in str(mark.args[0]).split(",") for mark in item.iter_markers("parametrize"))


def _seeds(count: int) -> list[int]:
    one, many = os.environ.get("MOLDAU_SIM_SEED"), os.environ.get("MOLDAU_SIM_SEEDS")
    if one:
        return [int(one)]
    if many:
        first, _, end = many.rpartition(":")
        return list(range(int(first or 0), int(end)))
    return list(range(count))
