"""Ports that stay reserved for one test, also while its broker is down between a kill and a restart.

A port that the system chose (bind to port 0) is free again once it is closed: another test's broker or an
outgoing connection may get it before the restart, and the test then talks to the wrong broker.

    0 ...... 20000 [ reserved ports ] 32768 [ assigned by the system ] 60999 ...... 65535

So reserved ports lie outside the range from which the system assigns (`ip_local_port_range`), and each has a
lock file for the life of the reservation. The lock ends with the process. Not covered: programs that bind
such a port without a reservation; the broker then refuses to start.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import tempfile
from pathlib import Path

_FIRST = 20_000
_LAST = 65_535
_LINUX_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_RANGE = (32_768, 65_535)  # Linux ends at 60999; macOS and Windows have 49152 to 65535
_ATTEMPTS_MAX = 1_000


class ReservedPort:
    """A port of loopback that no other reservation has; free again after `release`, or with the process."""

    def __init__(self, number: int, lock: int | None) -> None:
        self.number = number
        self._lock = lock

    def release(self) -> None:
        """Give the port back; a second call does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                os.close(lock)

    def __del__(self) -> None:
        self.release()


def reserve_port() -> ReservedPort:
    """Reserve a port that is free; OSError if none is found.

    Where files cannot be locked (Windows), a free port without a reservation.
    """
    try:
        import fcntl
    except ImportError:
        return ReservedPort(_free_port(), None)
    folder = Path(tempfile.gettempdir()) / f"moldau-test-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    source = random.SystemRandom()
    candidates = _candidates()
    for _ in range(_ATTEMPTS_MAX):
        number = source.choice(candidates)
        lock = os.open(folder / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        if _is_free(number):
            return ReservedPort(number, lock)
        os.close(lock)
    raise OSError(
        f"no free port was found in {_ATTEMPTS_MAX} attempts: see which programs listen on this machine"
    )


def _candidates() -> list[int]:
    low, high = _USUAL_RANGE
    with contextlib.suppress(OSError, ValueError):
        low, high = map(int, _LINUX_RANGE.read_text().split())
    outside = [number for number in range(_FIRST, _LAST + 1) if not low <= number <= high]
    return outside or list(range(_FIRST, _LAST + 1))


def _is_free(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
