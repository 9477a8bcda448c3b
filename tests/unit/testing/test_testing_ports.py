"""A reserved port is nobody else's, in this process or another, until it is released."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing import Broker, ports
from moldau.testing.ports import reserve_port

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ports are reserved by locked files")
OTHER_PROCESS = """
import sys
from moldau.testing import ports
ports._candidates = lambda: [int(word) for word in sys.argv[1:]]
print(ports.reserve_port().number)
"""


def only(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    monkeypatch.setattr(ports, "_candidates", lambda: list(numbers))


def test_a_port_is_reserved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = reserve_port(), reserve_port()
    only(monkeypatch, first.number, second.number)
    with pytest.raises(OSError, match="no free port"):
        reserve_port()
    first.release()
    assert reserve_port().number == first.number


def test_another_process_does_not_get_it() -> None:
    taken, free = reserve_port(), reserve_port()
    free.release()
    command = [sys.executable, "-c", OTHER_PROCESS, str(taken.number), str(free.number)]
    for _ in range(3):
        assert int(subprocess.run(command, capture_output=True, check=True).stdout) == free.number


def test_a_port_on_which_somebody_listens_is_not_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        only(monkeypatch, other.getsockname()[1])
        with pytest.raises(OSError, match="no free port"):
            reserve_port()


def test_reserved_ports_are_none_that_the_system_hands_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = tmp_path / "ip_local_port_range"
    setting.write_text("32768\t60999\n")
    monkeypatch.setattr(ports, "_LINUX_RANGE", setting)
    candidates = ports._candidates()
    assert not set(range(32768, 61000)) & set(candidates)
    assert len(candidates) > 10_000


def test_a_brokers_ports_stay_its_own_while_it_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(process=True) as broker:
        addresses = broker.bootstrap_servers, broker.http_address
        broker.kill()
        only(monkeypatch, *(int(address.rpartition(":")[2]) for address in addresses))
        with pytest.raises(OSError, match="no free port"):
            reserve_port()
        broker.restart()
        assert (broker.bootstrap_servers, broker.http_address) == addresses
    reserve_port()
