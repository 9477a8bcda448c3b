"""Freed memory that is kept: page faults of a process that makes large buffers again and again."""

import platform
import subprocess
import sys

import pytest

from moldau.common.core.heap import keep_freed_memory

FAULTS = """
import resource, sys
from moldau.common.core.heap import keep_freed_memory
print(keep_freed_memory({}) if sys.argv[1] == "kept" else False)
def turn():
    pair = [bytes(1 << 20), bytes(1 << 20), bytes(1 << 20)]  # as an answer with three partitions
for _ in range(20):
    turn()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    turn()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    was_done, count = done.stdout.split()
    return was_done, int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_large_buffers_do_not_fault_in_fresh_pages_each_time() -> None:
    _, count_before = faults("usual")
    was_done, count = faults("kept")
    assert was_done == "True"
    assert count < 1000 < count_before, (count, count_before)


def test_who_has_set_the_variables_keeps_them() -> None:
    assert not keep_freed_memory({"MALLOC_TRIM_THRESHOLD_": "131072"})
    assert not keep_freed_memory({"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=1"})
