"""What a SASL mechanism may be made of (logins.py has the table of those who make them)."""

import random
from collections.abc import Callable
from typing import NamedTuple

from moldau.broker.metadata.image import Image
from moldau.broker.security.login.outside import Outside
from moldau.common.core.clock import Clock
from moldau.common.credentials.jaas import JaasEntry
from moldau.common.settings.broker import BrokerSettings


class Parts(NamedTuple):
    """The parts. `jaas`: the entry of this listener and mechanism, if there is one;
    `settings`: those of the listener."""

    listener: str
    mechanism: str
    settings: BrokerSettings
    jaas: JaasEntry | None
    image: Callable[[], Image]
    clock: Clock
    source: random.Random
    outside: Outside | None = None
