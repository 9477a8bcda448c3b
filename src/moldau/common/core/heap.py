"""Memory that is freed stays with the process for the next large buffer, up to a bound.

glibc gives the end of its heap back to the kernel as soon as some 2 MB there are free, and takes it anew for
the next buffer: every page of it is then a page fault and is cleared again. A broker that answers fetches of
several partitions of 1 MB each does that with every answer. (Three brokers, six partitions, three replicas:
130 to 200 faults a megabyte without this, 0 to 16 with it, and a fifth less CPU.)

    up to KEPT_BYTES at the heap's end stay      larger buffers than MAPPED_BYTES are mapped by themselves,
                                                 and are given back when they are freed

Who has set glibc's own variables for this (mallopt(3)) keeps what they say; other C libraries are left alone.
"""

from collections.abc import Mapping

KEPT_BYTES = 16 << 20
MAPPED_BYTES = 8 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")


def keep_freed_memory(environment: Mapping[str, str]) -> bool:
    """For the whole process, whose environment this is; whether it was done."""
    if any(name in environment for name in _VARIABLES):
        return False
    try:
        import ctypes

        mallopt = ctypes.CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):  # no libffi, or another C library
        return False
    # The first alone would leave buffers from 128 KiB on to be mapped, each with fresh pages.
    return bool(mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
