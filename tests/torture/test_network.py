"""Machines that are namespaces: packets are lost and late, one way alone, and TCP lives through it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from child_process import child

from torture.network import OUTSIDE, Network, may_make_machines

pytestmark = pytest.mark.skipif(bool(may_make_machines()), reason=may_make_machines())
ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], 5000)) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(1, seed=1) as one:
        yield one


def test_packets_are_lost_one_way_late_and_forwarded_again(network: Network) -> None:
    command = [*network.inside(1), sys.executable, "-c", ECHO, network.address(1)]
    with child(command, stdout=subprocess.PIPE) as echo:
        assert echo.stdout is not None
        assert echo.stdout.readline() == b"listening\n"
        with socket.create_connection((network.address(1), 5000), 60) as client:
            client.sendall(b"one")
            assert client.recv(100) == b"one"
            assert network.rules([(1, OUTSIDE, 1.0, 0.0, 0.0)]) == 0
            client.sendall(b"two")  # it arrives, and neither the echo nor the acknowledgement comes back
            client.settimeout(0.3)
            with pytest.raises(TimeoutError):
                client.recv(100)
            client.settimeout(60)
            assert network.rules([(OUTSIDE, 1, 0.0, 0.2, 0.0)]) > 0
            assert client.recv(100) == b"two"
            began = time.monotonic()
            client.sendall(b"three")
            assert client.recv(100) == b"three"
            assert time.monotonic() - began >= 0.2
            assert network.rules() > 0
        echo.wait(60)


def test_nothing_is_left_of_a_network() -> None:
    with Network(2, seed=1) as one:
        names = [one.name(number) for number in one.numbers]
        there = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
        assert all(name in there for name in names)
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert not any(name in left for name in names)
