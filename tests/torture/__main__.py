"""make torture: round after round until it is enough, each with a seed of its own that can be run alone.

    python -m torture                       all scenarios in turn, for 10 minutes, from a random seed
    python -m torture --seed 7 --rounds 5   seeds 7 to 11
    python -m torture --scenario compaction --seed 7 --rounds 1 --short

The scenario and the durability follow from the seed too. A round that fails keeps its folder (ledgers, client
logs, the broker's data and output) and says where it is; the exit code is the number of failures, at most
100.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from torture.rounds import Round
from torture.scenarios import DURABILITIES, SCENARIOS, durability
from torture.victim import KIND


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a round ends what it started
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="moldau-torture-"))
    names = [options.scenario] if options.scenario else list(SCENARIOS)
    minutes = options.minutes if options.minutes is not None else (10.0 if options.rounds is None else None)
    deadline = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    limit = "" if minutes is None else f", {minutes:g} minutes"
    print(f"torture: {KIND}, first seed {seed}, {options.rounds or 'any number of'} rounds{limit}")
    failed: list[str] = []
    done = 0
    while done < (options.rounds or sys.maxsize) and (done == 0 or time.monotonic() < deadline):
        failed += _round(seed + done, names, folder, options)
        done += 1
    print(f"torture: {done} rounds, {len(failed)} failed, first seed {seed}")
    for line in failed:
        print(f"  {line}")
    if not failed and not options.folder:
        shutil.rmtree(folder, ignore_errors=True)
    return min(len(failed), 100)


def _round(seed: int, names: list[str], folder: Path, options: argparse.Namespace) -> list[str]:
    name = names[seed % len(names)]
    choice = options.durability or DURABILITIES[seed // len(names) % len(DURABILITIES)]
    place = folder / f"{name}-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    began = time.monotonic()
    with Round(seed, place, durability(KIND, choice)) as torture:
        try:
            summary = (SCENARIOS[name].short if options.short else SCENARIOS[name].long)(torture)
        except Exception:
            text = traceback.format_exc()
            (place / "complaints.txt").write_text(text)
            print(text, flush=True)
            summary = f"FAILED, see {place}"
    print(f"seed {seed} {name} durability={choice}: {summary} ({time.monotonic() - began:.0f} s)", flush=True)
    if summary.startswith("FAILED"):
        again = f"make torture SEED={seed} ROUNDS=1" + ("" if len(names) > 1 else f" SCENARIO={name}")
        again += f" DURABILITY={choice}" if options.durability else ""
        return [f"seed {seed} {name} durability={choice}: {place}; again: {again}"]
    shutil.rmtree(place, ignore_errors=True)
    return []


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--scenario", choices=SCENARIOS)
    parser.add_argument("--durability", choices=DURABILITIES, help="instead of the seed's choice")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--folder", default=os.environ.get("MOLDAU_TORTURE_FOLDER"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
