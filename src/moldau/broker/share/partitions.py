"""The share-partitions of this broker, and their members' sessions.

A share-partition is made by the first request for it, and lives as long as its partition is led here in the
same epoch, and its group has sessions here: without any it is forgotten as soon as all is written, so that
nothing is remembered of a group whose start an administrator has moved since.
"""

from collections.abc import Awaitable, Callable

from moldau.broker.coordinator.share.state import Key
from moldau.broker.coordinator.share.states import ShareStates
from moldau.broker.metadata.image import Image
from moldau.broker.replication.partition import Partition
from moldau.broker.share.served import Search, ServedPartition
from moldau.broker.share.sessions import MemberKey, ShareSession, ShareSessions
from moldau.broker.share.terms import Terms, TermsCache
from moldau.common.core.client_state import Account
from moldau.common.core.clock import Clock
from moldau.common.core.timers import Timers
from moldau.common.settings.broker import BrokerSettings


class SharePartitions:
    """See the module."""

    def __init__(
        self,
        *,
        node_id: int,
        image: Callable[[], Image],
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        timers: Timers,
        states: ShareStates,
        search: Search,
        account: Account | None = None,
    ) -> None:
        """`account`: what sessions hold is counted there."""
        self.clock = clock
        self.timers = timers
        self.states = states
        self._node_id = node_id
        self._image = image
        self._settings = settings
        self._search = search
        self._terms = TermsCache()
        self._served: dict[Key, ServedPartition] = {}
        self._of_group: dict[str, dict[Key, None]] = {}
        self._held_by: dict[MemberKey, dict[Key, None]] = {}  # where members with sessions acquired anything
        self.sessions = ShareSessions(
            lambda: settings().group_share_max_share_sessions, self._session_ended, account
        )

    # For share-partitions

    def terms_of(self, group_id: str) -> Terms:
        """The group's settings."""
        return self._terms.of(group_id, self._settings(), self._image())

    def first_at(self, partition: Partition, timestamp_ms: int) -> Awaitable[int | None]:
        """See `served.Parts`."""
        return self._search(partition, timestamp_ms)

    def closed(self, served: ServedPartition) -> None:
        """See `served.Parts`."""
        if self._served.get(served.key) is served:
            del self._served[served.key]
            keys = self._of_group.get(served.key.group_id)
            if keys is not None:
                keys.pop(served.key, None)
                if not keys:
                    del self._of_group[served.key.group_id]

    def acquired(self, served: ServedPartition, member_id: str) -> None:
        """See `served.Parts`."""
        member = MemberKey(served.key.group_id, member_id)
        self._held_by.setdefault(member, {})[served.key] = None

    def settled(self, served: ServedPartition) -> None:
        """See `served.Parts`: one that nobody has a session for is forgotten."""
        if not served.has_work() and not self.sessions.has_group(served.key.group_id):
            served.close()

    # For requests

    def get(self, key: Key, partition: Partition) -> ServedPartition:
        """The share-partition of a partition that is led here."""
        served = self._served.get(key)
        if served is not None and (served.partition is not partition or not served.is_current):
            served.close()
            served = None
        if served is None:
            served = self._served[key] = ServedPartition(key, partition, self)
            self._of_group.setdefault(key.group_id, {})[key] = None
        return served

    def known(self, key: Key) -> ServedPartition | None:
        """The share-partition, if it is served."""
        served = self._served.get(key)
        return served if served is not None and served.is_current else None

    def _session_ended(self, session: ShareSession) -> None:
        group_id, member_id = session.key
        for key in self._held_by.pop(session.key, ()):
            served = self._served.get(key)
            if served is not None:
                served.release(member_id)
        if not self.sessions.has_group(group_id):
            for key in list(self._of_group.get(group_id, ())):
                served = self._served.get(key)
                if served is not None and not served.has_work():
                    served.close()

    # Life

    def image_changed(self, image: Image) -> None:
        """Forget what is led by others now, or deleted."""
        for key, served in list(self._served.items()):
            name = image.topic_names.get(key.topic_id)
            topic = None if name is None else image.topics.get(name)
            if topic is None or key.partition >= len(topic.partitions):
                served.close()
                continue
            state = topic.partitions[key.partition]
            if state.leader != self._node_id or state.leader_epoch > served.leader_epoch:
                served.close()

    def close(self) -> None:
        """The broker stops."""
        for served in list(self._served.values()):
            served.close()

    def all(self) -> list[ServedPartition]:
        """For metrics."""
        return list(self._served.values())
