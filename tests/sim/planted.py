"""Does the random scenario find what is broken? Runs seeds with one fault planted, until a seed fails.

    python tests/sim/planted.py --list
    python tests/sim/planted.py                             every fault, up to 500 seeds each
    python tests/sim/planted.py --fault early-high-watermark --seeds 0:100 --processes 2

A fault counts as found by a seed that fails with it and passes without. Each fault runs in a process of its
own. The exit code is 1 when fewer than nine of ten are found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHARE_FOUND_MIN = 0.9


def search(name: str, first: int, end: int, kinds: str, out: Any) -> None:
    """In this process: run the seeds with this fault planted ("": none) up to the first that fails."""
    from planted_faults import FAULTS
    from planting import plant

    if name:
        (fault,) = (each for each in FAULTS if each.name == name)
        plant(fault)
        kinds = fault.kinds
    from sim_cluster_random import run_seed

    began = time.process_time()
    for seed in range(first, end):
        try:
            run_seed(seed, kinds)
        except AssertionError as error:
            told = {"seed": seed, "kinds": kinds, "error": str(error)}
            json.dump({**told, "cpu_s": time.process_time() - began}, out)
            return
    json.dump({"seed": None, "cpu_s": time.process_time() - began}, out)


def _in_a_process(name: str, first: int, end: int, kinds: str = "") -> dict[str, Any]:
    line = [sys.executable, __file__, "--search", name, "--seeds", f"{first}:{end}"]
    done = subprocess.run([*line, "--kinds", kinds], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"seed": None, "cpu_s": 0.0, "error": done.stderr[-2000:]}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def find(name: str, first: int, end: int) -> dict[str, Any]:
    """The first seed that fails with the fault and passes without it."""
    cpu_s = 0.0
    while first < end:
        told = _in_a_process(name, first, end)
        cpu_s += told["cpu_s"]
        seed = told["seed"]
        if seed is None:
            break
        if _in_a_process("", seed, seed + 1, told["kinds"])["seed"] is None:
            return {**told, "cpu_s": cpu_s}
        first = seed + 1  # it fails without the fault, too
    return {"seed": None, "cpu_s": cpu_s, "error": told.get("error", "")}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name the faults, and what each breaks")
    parser.add_argument("--fault", action="append", help="only this one; may be given several times")
    parser.add_argument("--seeds", default="0:500", help="FIRST:END")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--search", help=argparse.SUPPRESS)
    parser.add_argument("--kinds", default="", help=argparse.SUPPRESS)
    told = parser.parse_args()
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    first, end = (int(part) for part in told.seeds.split(":"))
    if told.search is not None:
        search(told.search, first, end, told.kinds, sys.stdout)
        return 0
    from planted_faults import FAULTS

    if told.list:
        for fault in FAULTS:
            print(f"{fault.name:40} {fault.breaks}")
        return 0
    names = [fault.name for fault in FAULTS if not told.fault or fault.name in told.fault]
    if unknown := set(told.fault or ()) - set(names):
        parser.error(f"there is no fault {sorted(unknown)}; --list has them")

    def one(name: str) -> bool:
        found = find(name, first, end)
        seed, lines = found["seed"], found.get("error", "").splitlines() or [""]
        what = f"seed {seed}: {lines[0].partition('failed: ')[2][:150]}" if seed is not None else "NOT FOUND"
        print(f"{name:40} {found['cpu_s']:7.1f} s  {what}", flush=True)
        if seed is None and lines != [""]:
            print("\n".join(lines), flush=True)
        return seed is not None

    with ThreadPoolExecutor(told.processes) as pool:
        outcomes = list(pool.map(one, names))
    print(f"{sum(outcomes)} of {len(outcomes)} found within {end - first} seeds")
    return int(sum(outcomes) < SHARE_FOUND_MIN * len(outcomes))


if __name__ == "__main__":
    sys.exit(main())
