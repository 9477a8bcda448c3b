"""A network switch in user space: it forwards the packets of machines that are network namespaces, or does
not.

Every machine has a TUN device; this process holds the other ends. So packets between two machines can be
lost, late and out of order, in one direction alone, without a firewall or `netem` in the kernel. TCP is the
machines' own: it sends again, backs off and gives up as it does on a real network.

    machine 1 ── tun ──┐
    machine 2 ── tun ──┤ this process      rule of (source, target): loss, delay, jitter
    machine 3 ── tun ──┤
    the harness ─ tun ─┘

    python -m torture.network_switch '{"devices": {"10.213.4.1": "tt41", ...}, "seed": 7}'

It says "ready" when the devices are there (they live as long as it does). A line of standard input replaces
all rules: [["10.213.4.1", "10.213.4.2", loss 0..1, delay_s, jitter_s], ...]; it is answered with the number
of packets that the rules before have lost or delayed. It ends with its standard input.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import selectors
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

TUN = "/dev/net/tun"
_SET_DEVICE, _IS_TUN, _NO_HEADER = 0x400454CA, 0x0001, 0x1000
PACKET_BYTES_MAX = 65_536
PACKETS_AT_ONCE = 64


class Rule(NamedTuple):
    """What happens to packets from one machine to another."""

    loss: float
    delay_s: float
    jitter_s: float


class Switch:
    """The devices by address, the rules, and packets that are late."""

    def __init__(self, devices: Mapping[str, str], seed: int) -> None:
        self._draw = random.Random(seed)
        self._devices = {socket.inet_aton(at): open_device(name) for at, name in devices.items()}
        self._rules: dict[tuple[bytes, bytes], Rule] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._number = 0
        self._touched = 0
        self._input = b""
        self._selector = selectors.DefaultSelector()
        for device in self._devices.values():
            self._selector.register(device, selectors.EVENT_READ)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)

    def run(self) -> None:
        """Forward until the input ends."""
        while True:
            timeout = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            for key, _ in self._selector.select(timeout):
                if key.fd != sys.stdin.fileno():
                    self._take(key.fd)
                elif not self._obey():
                    return
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, device, packet = heapq.heappop(self._late)
                deliver(device, packet)

    def _take(self, device: int) -> None:
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = os.read(device, PACKET_BYTES_MAX)
            except OSError:
                return
            if packet[0] >> 4 == 4 and len(packet) >= 20:
                self._forward(packet)

    def _forward(self, packet: bytes) -> None:
        source, target = packet[12:16], packet[16:20]
        device = self._devices.get(target)
        if device is None:
            return
        rule = self._rules.get((source, target))
        if rule is None:
            deliver(device, packet)
            return
        self._touched += 1
        if self._draw.random() < rule.loss:
            return
        due = time.monotonic() + rule.delay_s + self._draw.random() * rule.jitter_s
        self._number += 1
        heapq.heappush(self._late, (due, self._number, device, packet))

    def _obey(self) -> bool:
        data = os.read(sys.stdin.fileno(), 65_536)
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            rules = json.loads(line)
            self._rules = {
                (socket.inet_aton(source), socket.inet_aton(target)): Rule(*how)
                for source, target, *how in rules
            }
            print(self._touched, flush=True)
            self._touched = 0
        return bool(data)


def open_device(name: str) -> int:
    """Make a TUN device without a header before its packets."""
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _SET_DEVICE, struct.pack("16sH22s", name.encode(), _IS_TUN | _NO_HEADER, b""))
    return device


def deliver(device: int, packet: bytes) -> None:
    """A packet that the machine has no room for is lost, as on any network."""
    with suppress(OSError):
        os.write(device, packet)


def main() -> None:
    plan = json.loads(sys.argv[1])
    switch = Switch(plan["devices"], plan["seed"])
    print("ready", flush=True)
    switch.run()


if __name__ == "__main__":
    main()
