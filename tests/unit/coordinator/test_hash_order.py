"""What coordinators write and answer does not depend on the order in which a set happens to be iterated:
after a failover another process computes the same, and a simulation repeats itself from its seed."""

import os
import subprocess
import sys
from pathlib import Path

LIFE = Path(__file__).with_name("hash_order_life.py")
LINES_MIN = 500


def test_the_same_life_under_other_hash_seeds() -> None:
    path = os.pathsep.join((str(LIFE.parent), str(LIFE.parent / "transaction")))
    running = [
        subprocess.Popen(
            [sys.executable, str(LIFE)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("0", "1", "12345")
    ]
    told = [process.communicate(timeout=120)[0].splitlines() for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    first, *others = told
    assert len(first) >= LINES_MIN
    for lines in others:
        differing = [pair for pair in zip(first, lines, strict=True) if pair[0] != pair[1]]
        assert differing == []
