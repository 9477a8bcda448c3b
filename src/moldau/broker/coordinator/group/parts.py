"""What the parts of a group shard share: its groups, and what decisions about them need.

A part (classic/, consumer/, share/, offsets/) is given this and the parts below it, never the shard, which
alone knows all of them (shard.py).
"""

import random
from collections.abc import Callable

from moldau.broker.coordinator.deadlines import Deadlines
from moldau.broker.coordinator.group.group import Group
from moldau.broker.coordinator.group.removals import Removals
from moldau.broker.coordinator.journal import Journal
from moldau.broker.metadata.image import Image
from moldau.common.core.client_state import Holdings
from moldau.common.settings.broker import BrokerSettings


class ShardParts:
    """One shard's."""

    __slots__ = (
        "deadlines",
        "groups",
        "held",
        "image",
        "journal",
        "orphans",
        "random",
        "removals",
        "settings",
    )

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        image: Callable[[], Image],
        random_source: random.Random,
        removals: Removals,
        held: Holdings,
    ) -> None:
        self.settings = settings
        self.image = image
        self.random = random_source
        self.removals = removals
        self.held = held
        """The memory that groups and members hold."""
        self.journal = Journal()
        self.deadlines = Deadlines()
        self.groups: dict[str, Group] = self.journal.dict()
        """Of all protocols, in one name space."""
        self.orphans: list[Group] = []
        """Groups whose creation was undone: their callers wait for an answer."""
