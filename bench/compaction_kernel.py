"""What compaction's loops cost, without a broker: CPU seconds of a clean, by kernel and twin in turn.

    python -m bench.compaction_kernel

Three logs: updates of 100 bytes in batches of 8,000 (five a key), the same in batches of one record, and
different keys without values. CPU rather than clocks, as everywhere here.
"""

import os
import random
import struct
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from bench.figures.compaction import UPDATES_A_KEY, VALUE_BYTES, _batch
from moldau.broker.log.compaction.clean import clean
from moldau.broker.log.compaction.job import CleanJob, Source, Statistics
from moldau.broker.log.compaction.kernel import ENVIRONMENT, kernel_name
from moldau.common.core.files import OsFiles

UPDATES = 1_000_000
SINGLE_UPDATES = 200_000
KEYS = 3_000_000
SEGMENT_BYTES = 64 << 20
IO_BUFFER_BYTES = 256 << 10
ROUNDS = 3


def updates(count: int) -> Iterator[int]:
    """Random keys, each about five times."""
    rng = random.Random(4)
    return (rng.randrange(count // UPDATES_A_KEY) for _ in range(count))


def write_log(folder: Path, keys: Iterator[int], value_bytes: int, batch_records: int) -> CleanJob:
    """A log of one record a key, and the job to clean it."""
    value, chunk, base_offset = b"v" * value_bytes, list[int](), 0
    segments: dict[int, bytearray] = {0: bytearray()}

    def flush() -> None:
        nonlocal base_offset
        batch = bytearray(_batch(chunk, value))
        struct.pack_into(">q", batch, 0, base_offset)
        last = segments[max(segments)]
        if len(last) + len(batch) > SEGMENT_BYTES:
            last = segments.setdefault(base_offset, bytearray())
        last += batch
        base_offset += len(chunk)
        chunk.clear()

    for key in keys:
        chunk.append(key)
        if len(chunk) == batch_records:
            flush()
    if chunk:
        flush()
    for base, data in segments.items():
        (folder / f"{base:020d}.log").write_bytes(data)
    sources = tuple(
        Source(base, end, len(segments[base])) for base, end in pairwise([*segments, base_offset])
    )
    return CleanJob(
        str(folder), "t", 0, sources, 0, base_offset, int(time.time() * 1000), 86_400_000,
        segment_bytes=SEGMENT_BYTES, io_buffer_bytes=IO_BUFFER_BYTES,
    )  # fmt: skip


def measure(job: CleanJob, name: str) -> tuple[float, Statistics]:
    """CPU seconds of one clean, and what it did."""
    os.environ[ENVIRONMENT] = name
    before = time.process_time()
    result = clean(OsFiles(), job)
    took_s = time.process_time() - before
    for path in Path(job.directory).glob("*.cleaned"):
        path.unlink()
    return took_s, result.statistics


def main() -> None:
    """Print a line for each log and kernel."""
    os.environ.pop(ENVIRONMENT, None)
    names = ("python",) if kernel_name() == "python" else ("compiled", "python")
    for title, keys, value_bytes, batch_records in (
        ("updates, 8,000 a batch", updates(UPDATES), VALUE_BYTES, 8_000),
        ("updates, 1 a batch", updates(SINGLE_UPDATES), VALUE_BYTES, 1),
        ("different keys, 8,000 a batch", iter(range(KEYS)), 0, 8_000),
    ):
        with tempfile.TemporaryDirectory() as folder:
            job = write_log(Path(folder), keys, value_bytes, batch_records)
            best: dict[str, float] = {}
            for _ in range(ROUNDS):
                for name in names:
                    took_s, statistics = measure(job, name)
                    best[name] = min(best.get(name, took_s), took_s)
            size_mb = sum(source.size_bytes for source in job.sources) / 1e6
            for name in names:
                took_s = best[name]
                print(
                    f"{title}: {name} {took_s:.2f} s of CPU, {size_mb / took_s:.0f} MB a second of it, "
                    f"{took_s / statistics.records_in * 1e6:.2f} microseconds a record"
                )


if __name__ == "__main__":
    main()
