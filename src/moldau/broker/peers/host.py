"""What connections to other brokers need of the machine (moldau/broker/host.py)."""

import asyncio
import random
from concurrent.futures import Executor
from typing import Protocol

from moldau.common.core.network import Network
from moldau.common.core.timers import Timers


class PeerHost(Protocol):
    """A part of `Host`."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def network(self) -> Network: ...
    @property
    def timers(self) -> Timers: ...
    @property
    def random(self) -> random.Random: ...
    @property
    def workers(self) -> Executor: ...
