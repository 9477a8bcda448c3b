"""Simulated clusters (tests/sim), seed after seed: more of what the usual test run does a little of.

A round of seed 7 runs the simulation's seeds 7,000 to 7,999. A failure tells its own seed, and how to run it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from torture.rounds import Failure, Round

_SEEDS_A_ROUND = 1000
_PROGRESS_SEEDS = 50
_SIMULATION = Path(__file__).parent.parent / "sim"


def run(torture: Round, seeds: int) -> str:
    """Run so many seeds, each with one of three kinds of faults."""
    if str(_SIMULATION) not in sys.path:
        sys.path.insert(0, str(_SIMULATION))
    from sim_cluster_random import run_seed

    first = torture.seed * _SEEDS_A_ROUND
    failures: list[str] = []
    began = time.monotonic()
    for count, seed in enumerate(range(first, first + seeds), 1):
        try:
            run_seed(seed)
        except AssertionError as error:
            failures.append(str(error))
            print(failures[-1], flush=True)
        if count % _PROGRESS_SEEDS == 0:
            seconds = time.monotonic() - began
            print(f"{count} of {seeds} seeds, {len(failures)} failed, {seconds:.0f} s", flush=True)
    if failures:
        raise Failure("\n".join(failures))
    return f"{seeds} simulated clusters"
