"""Old segments cut short, emptied or gone, with and without their indexes: a reader comes past every gap.

The log has no other replica, so it keeps what lies behind the damage. A consumer that stood in the gap, or
comes to it, goes on with the next batch that is there.
"""

import os
import random
from pathlib import Path

import pytest
from damage_world import Case, content, start

from moldau.broker.log.files.segment import LOG_SUFFIX
from moldau.broker.log.log import Log
from moldau.common.records.batch import iter_batches


def boundaries(path: Path) -> list[int]:
    """Where batches begin and end."""
    data = path.read_bytes()
    found = [0]
    while found[-1] < len(data):
        at = found[-1]
        found.append(at + int.from_bytes(data[at + 8 : at + 12], "big") + 12)
    return found


def cut(rng: random.Random, path: Path) -> str:
    """Damage one segment's files; what was done."""
    size = path.stat().st_size
    place = rng.choice((rng.choice(boundaries(path)), rng.randrange(size), 0, -1))
    indexes = rng.choice(("kept", "kept", "cut", "gone"))
    for suffix in (".index", ".timeindex"):
        index = path.with_suffix(suffix)
        if index.exists() and indexes == "cut":
            os.truncate(index, rng.randrange(index.stat().st_size + 1))
        elif index.exists() and indexes == "gone":
            index.unlink()
    if place < 0:
        path.unlink()
    else:
        os.truncate(path, place)
    return f"{path.name}: {place} of {size}, indexes {indexes}"


def check_that_readers_come_through(log: Log, what: list[str]) -> None:
    """From every offset, in small and large pieces, to the last batch that is there."""
    last = max(content(log)[0])
    for max_bytes in (1, 300, 1 << 20):
        for offset in range(log.log_start_offset, last + 1):
            data = log.reader.read(offset, max_bytes, end_offset=log.log_end_offset)
            found = [batch.next_offset for batch in iter_batches(bytes(data))]
            assert found, f"a reader stands still at {offset}: {what}"
            assert found[0] > offset, what
            assert found == sorted(set(found)), what


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_readers_come_past_what_is_cut_out_of_old_segments(tmp_path: Path, seed: int, clean: bool) -> None:
    rng = random.Random(seed)
    case = Case(tmp_path, clean=clean)
    old = case.files(LOG_SUFFIX)[:-1]
    what = [cut(rng, path) for path in rng.sample(old, rng.choice((1, 1, 2, 3)))]
    for _ in range(2):  # the second start finds what the first has left
        manager, victim, _ = start(case.folder)
        check_that_readers_come_through(victim, what)
        manager.close()
