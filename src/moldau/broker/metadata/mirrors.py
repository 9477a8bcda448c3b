"""Links to other clusters, and the topics that mirror theirs, as the image holds them.

A link's settings are those of a client (`bootstrap.servers`, `sasl.jaas.config`, ...), and Moldau's own for
what is mirrored (common/settings/mirror.py). They may hold secrets, which no repr shows. The design:
docs/decisions/mirror.md.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from moldau.common.core.ids import ZERO_UUID


class MirrorState(StrEnum):
    """What a mirror topic does; as it is written and shown."""

    PREPARING = "preparing"
    """Its partitions look for where to begin (`left`: those that have not found it)."""
    MIRRORING = "mirroring"
    PAUSED = "paused"
    FAULTED = "faulted"
    """As paused; the reason says what somebody has to look at."""
    FAILING_OVER = "failing-over"
    """Nothing is pulled any more; open transactions are being aborted (`left`: where they are not yet)."""
    FAILED_OVER = "failed-over"
    """An ordinary topic that remembers where it came from."""


PULLED = frozenset({MirrorState.PREPARING, MirrorState.MIRRORING})


class MirrorLink(NamedTuple):
    """A link to another cluster."""

    name: str
    settings: Mapping[str, str]

    def __repr__(self) -> str:
        return f"MirrorLink({self.name!r}, {sorted(self.settings)})"


class MirrorTopic(NamedTuple):
    """That a topic here mirrors one of a link's cluster."""

    link: str
    source: str
    """The topic's name there."""
    source_id: bytes = ZERO_UUID
    """Its id there; zero where the source has no ids, or it is not known yet."""
    state: MirrorState = MirrorState.PREPARING
    left: tuple[int, ...] = ()
    """The partitions that the present state waits for."""
    reason: str = ""
    """Of a fault: a sentence."""

    def is_read_only(self, index: int) -> bool:
        """Whether clients may not write this partition."""
        if self.state is MirrorState.FAILING_OVER:
            return index in self.left
        return self.state is not MirrorState.FAILED_OVER

    def is_pulled(self) -> bool:
        """Whether the leaders of its partitions fetch from the source."""
        return self.state in PULLED


MirrorLinks = Mapping[str, MirrorLink]
Mirrors = Mapping[str, MirrorTopic]
"""By the topic's name here."""

NO_LINKS: MirrorLinks = MappingProxyType({})
NO_MIRRORS: Mirrors = MappingProxyType({})
