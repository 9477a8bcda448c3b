"""Planted faults: each entry fits the code, the docs name each, and the random scenario finds what it must.

The whole list takes long: `python tests/sim/planted.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from planted_faults import FAULTS, Planted
from planting import planted_source, source_of

HERE = Path(__file__).parent
DOCS = HERE.parent.parent / "docs" / "testing.md"
CHEAP = (
    "same-leader-epoch",
    "early-high-watermark",
    "follower-without-producers",
    "marker-answered-at-append",
)
FAULTS_MIN = 20


def test_there_are_enough_and_each_has_one_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= FAULTS_MIN


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_has_its_place_in_the_code(fault: Planted) -> None:
    source = planted_source(fault, source_of(fault.module))
    compile(source, fault.module, "exec")


def test_the_docs_name_each() -> None:
    docs = DOCS.read_text(encoding="utf-8")
    assert [fault.name for fault in FAULTS if f"`{fault.name}`" not in docs] == []


@pytest.mark.parametrize("name", CHEAP)
def test_one_of_the_first_seeds_finds_it(name: str) -> None:
    line = [sys.executable, str(HERE / "planted.py"), "--fault", name, "--seeds", "0:20"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 found" in done.stdout


def test_a_fault_that_has_lost_its_place_is_named() -> None:
    fault = FAULTS[0]
    with pytest.raises(ValueError, match=fault.name):
        planted_source(fault, "x = 1\n")
