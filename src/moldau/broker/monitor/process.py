"""Memory, CPU and descriptors of this process, from /proc where it exists."""

import gc
import os
import resource
import sys
import time
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")


class ProcessFacts(NamedTuple):
    """One reading; None for unavailable values."""

    cpu_seconds: float
    resident_bytes: int | None
    virtual_bytes: int | None
    started_seconds: float | None
    open_descriptors: int | None
    max_descriptors: int
    collections: tuple[dict[str, int], ...] = ()
    """Of each generation of the garbage collector: `collections`, `collected`, `uncollectable`."""


def read() -> ProcessFacts:
    """Read now; takes some 50 us, and a little more with thousands of descriptors."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    resident, virtual, started = _memory_and_start()
    return ProcessFacts(
        usage.ru_utime + usage.ru_stime,
        resident,
        virtual,
        started,
        open_descriptors(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        tuple(gc.get_stats()),
    )


def open_descriptors() -> int | None:
    """How many files and sockets this process has open."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder)) - 1  # the listing itself needs one
        except OSError:
            continue
    return None


def _memory_and_start() -> tuple[int | None, int | None, float | None]:
    try:
        # The name in parentheses may hold spaces; the fields after it do not.
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return (peak if sys.platform == "darwin" else peak * 1024), None, None
    started = time.time() - uptime + int(fields[19]) / _TICKS
    return int(fields[21]) * _PAGE_BYTES, int(fields[20]), started
