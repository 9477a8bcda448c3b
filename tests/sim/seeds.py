"""Seeds of the random scenario, many of them, in several processes; goes on where it was interrupted.

    python tests/sim/seeds.py 0:20000 --processes 2 --keep /tmp/seeds

Each seed chooses its kind of faults (`run_seed`). What has run, and what failed, is appended to files below
`--keep`, one of each process: the same command goes on behind that. The first failure ends the run, unless
`--all`. A failure prints its seed and what broke; `python tests/sim/seeds.py 17:18` runs seed 17 again. The
exit code is 1 when a seed has failed, now or before. Outcomes belong to one state of the sources: for others,
name another folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TESTS = HERE.parent
_TOLD_EVERY_SECONDS = 30.0


def run(seeds: list[int], path: Path, stop: Any) -> None:
    """Run these seeds in this process, and append the outcome of each to the file."""
    from sim_cluster_random import run_seed

    with path.open("a", encoding="utf-8") as file:
        for seed in seeds:
            if stop.is_set():
                return
            error = ""
            began = time.process_time()
            try:
                run_seed(seed)
            except AssertionError as failure:
                error = str(failure)
            row = {"seed": seed, "error": error, "cpu_s": round(time.process_time() - began, 3)}
            file.write(json.dumps(row) + "\n")
            file.flush()


def outcomes(folder: Path) -> list[dict[str, Any]]:
    """Of all seeds that have run, in their order; half a line at an end is ignored."""
    rows = []
    for path in folder.glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
    return sorted(rows, key=lambda row: int(row["seed"]))


def sources_digest(folders: Iterable[Path]) -> str:
    """Tells one state of the sources from another."""
    digest = hashlib.blake2b(digest_size=16)
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("seeds", help="FIRST:END")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder of outcomes; without it, nothing can be resumed")
    parser.add_argument("--all", action="store_true", help="go on after a failure, and collect them")
    told = parser.parse_args()
    sys.path[:0] = [str(HERE), str(TESTS)]
    first, end = (int(part) for part in told.seeds.split(":"))
    if told.keep is None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            return _run_all(first, end, told.processes, Path(folder), go_on=told.all)
    told.keep.mkdir(parents=True, exist_ok=True)
    return _run_all(first, end, told.processes, told.keep, go_on=told.all)


def _run_all(first: int, end: int, processes: int, folder: Path, *, go_on: bool) -> int:
    import moldau

    digest = sources_digest([HERE, TESTS / "histories", Path(str(moldau.__file__)).parent])
    known = folder / "sources"
    if known.exists() and known.read_text() != digest:
        print(f"{folder} has outcomes of other sources: name another folder, or remove it", file=sys.stderr)
        return 2
    known.write_text(digest)
    done = {row["seed"] for row in outcomes(folder)}
    left = [seed for seed in range(first, end) if seed not in done]
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    workers = [
        context.Process(target=run, args=(left[one::processes], folder / f"{one}.jsonl", stop))
        for one in range(processes)
    ]
    for worker in workers:
        worker.start()
    # Ended in order, it ends its processes too: each finishes the seed that it runs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began, told, failed = time.monotonic(), time.monotonic(), 0
    try:
        while any(worker.is_alive() for worker in workers):
            workers[0].join(0.5) if workers[0].is_alive() else time.sleep(0.5)
            failures = [row for row in outcomes(folder) if row["error"]]
            for row in failures[failed:] if len(failures) > failed else ():
                print(f"\nFAILED {row['error'][:2000]}", flush=True)
            failed = max(failed, len(failures))
            if failures and not go_on:
                stop.set()
            if time.monotonic() - told > _TOLD_EVERY_SECONDS:
                told = time.monotonic()
                count = len(outcomes(folder))
                print(f"{count} seeds, {failed} failed, {told - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        stop.set()
    for worker in workers:
        worker.join()
    rows = [row for row in outcomes(folder) if first <= row["seed"] < end]
    failures = [row for row in rows if row["error"]]
    cpu_s = sum(row["cpu_s"] for row in rows)
    print(f"{len(rows)} of {end - first} seeds ran in {cpu_s:.0f} CPU seconds, {len(failures)} failed")
    for row in failures:
        print(f"  seed {row['seed']}: {row['error'].splitlines()[0][:200]}")
    crashed = [worker.exitcode for worker in workers if worker.exitcode]
    if crashed:
        print(f"processes ended with {crashed}", file=sys.stderr)
    return int(bool(failures or crashed))


if __name__ == "__main__":
    sys.exit(main())
