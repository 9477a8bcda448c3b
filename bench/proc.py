"""What a process costs, read from /proc: CPU seconds, resident memory, and nothing that disturbs it.

CPU time is the figure of this folder: on a machine whose two cores are shared by broker, client and
neighbours a wall clock mostly tells who else was busy, while CPU seconds a request or a gigabyte stay within
a few per cent.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class CpuTime:
    """CPU seconds that a process and all its threads have used since it began."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.system_s

    def __sub__(self, earlier: CpuTime) -> CpuTime:
        return CpuTime(self.user_s - earlier.user_s, self.system_s - earlier.system_s)


def cpu_time(pid: int) -> CpuTime:
    """CPU time so far; the kernel counts it in ticks of 10 ms, so measure spans of a second or more."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split()
    return CpuTime(int(fields[11]) / _TICKS_PER_SECOND, int(fields[12]) / _TICKS_PER_SECOND)


def resident_bytes(pid: int) -> int:
    """Resident set, shared libraries included."""
    return _status_kilobytes(pid, "VmRSS") * 1024


def resident_bytes_with_children(pid: int) -> int:
    """Resident sets of the process and its children together; one that ends meanwhile counts as nothing."""
    total = resident_bytes(pid)
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in listing.read_text().split():
            try:
                total += resident_bytes(int(child))
            except (OSError, ValueError):
                continue
    return total


def peak_resident_bytes(pid: int) -> int:
    """The highest resident set since the process began."""
    return _status_kilobytes(pid, "VmHWM") * 1024


def open_files(pid: int) -> int:
    """File descriptors that the process holds open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def _status_kilobytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise ValueError(f"no {field} for process {pid}")


def spin_ms() -> float:
    """How long a fixed Python loop takes at this moment, best of five: about 15 ms on a core left alone.

    Two virtual cores that share a real one with others run at half their speed or less; only this shows it.
    """
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        total = 0
        for number in range(400_000):
            total += number
        best = min(best, time.perf_counter() - began)
    return best * 1e3


@dataclass(frozen=True, slots=True)
class MachineTime:
    """What all cores together did since the machine started, in ticks."""

    total: int
    stolen: int

    def stolen_share_since(self, earlier: MachineTime) -> float:
        """The share of the time that the hypervisor gave to other machines, 0 to 1."""
        return (self.stolen - earlier.stolen) / max(1, self.total - earlier.total)


def machine_time() -> MachineTime:
    """Read /proc/stat."""
    fields = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return MachineTime(sum(fields), fields[7])
