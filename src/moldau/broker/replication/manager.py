"""The partitions that live on this broker, kept in step with the metadata image.

The image says which partitions exist and who leads them; `apply` compares it with what is open here, opens
new partitions, closes and deletes removed ones, and passes changed settings to the logs, in slices where
there is much to do (work_list.py). Handlers look a partition up by topic name or topic id, as text or as the
raw bytes of a frame. Not here: what coordinators append and read (coordinator_log.py).
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from moldau.broker.log.log import Log
from moldau.broker.log.manager import LogManager
from moldau.broker.metadata.changes import BrokerRegistered, Change
from moldau.broker.metadata.configs import effective_broker_settings, topic_settings
from moldau.broker.metadata.image import (
    EMPTY_IMAGE,
    GROUP_OFFSETS_TOPIC,
    NO_LEADER,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    Image,
    PartitionState,
    ResourceType,
    TopicState,
)
from moldau.broker.replication.deletions import Deletions
from moldau.broker.replication.follower_progress import ANY_BROKER_EPOCH
from moldau.broker.replication.group_commit import GroupCommit
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.peers import FollowerFetcher, InSyncChanges, NoPeers
from moldau.broker.replication.replication_quota import ReplicationQuota, ThrottledPartitions, throttled_here
from moldau.broker.replication.shared_parts import InSyncCounts, SharedParts
from moldau.broker.replication.ticker import TIMEOUTS_MS, Ticker
from moldau.broker.replication.topic_stats import TopicStats
from moldau.broker.replication.work_list import Due, WorkList
from moldau.common.core.clock import Clock
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.topic import TopicSettings

if TYPE_CHECKING:
    from moldau.broker.replication.leadership_check import LeadershipCheck

log = logging.getLogger("moldau.replication")


class ReplicaManager:
    """All partitions of this broker."""

    def __init__(
        self,
        node_id: int,
        static_settings: BrokerSettings,
        log_manager: LogManager,
        clock: Clock,
        group_commit: GroupCommit,
        in_sync_changes: InSyncChanges | None = None,
        fetcher: FollowerFetcher | None = None,
    ) -> None:
        """`in_sync_changes` and `fetcher`: None in a cluster of one."""
        self._node_id = node_id
        self._static = static_settings
        lag_max_ms = static_settings.replica_lag_time_max_ms
        timers = log_manager.timers
        self.leader_quota = self._make_quota(clock)
        """Of what this broker sends to throttled followers."""
        self.follower_quota = self._make_quota(clock)
        """Of what this broker's throttled followers fetch."""
        self.folder_quota = ReplicationQuota(
            clock.monotonic_ms,
            window_count=static_settings.alter_log_dirs_replication_quota_window_num,
            window_ms=static_settings.alter_log_dirs_replication_quota_window_size_seconds * 1_000,
        )
        """Of what moves between this broker's log directories."""
        self.deletions = Deletions(timers, lambda node_id: self._broker_epoch(node_id) is not None)
        self._timeouts: Ticker[Partition] = Ticker(
            timers, clock, TIMEOUTS_MS, lambda each: each.role.has_timeouts
        )
        self._lags: Ticker[Partition] = Ticker(
            timers, clock, lag_max_ms / 2, lambda each: each.leads_followers
        )
        self.in_sync_counts = InSyncCounts()
        self.leadership_check: LeadershipCheck | None = None
        """None: nobody deposes this broker without its knowledge."""
        self.replication_bytes_out = 0
        """Bytes of record batches that followers fetched."""
        self._shared = SharedParts(
            node_id,
            group_commit,
            clock.monotonic_ms,
            timeouts=self._timeouts,
            lags=self._lags,
            in_sync_changes=in_sync_changes or NoPeers(),
            fetcher=fetcher or NoPeers(),
            broker_epoch=self._broker_epoch,
            is_stranger=self._is_stranger,
            storage_failed=self.storage_failed,
            leads_certainly=self._leads_certainly,
            lag_max_ms=lag_max_ms,
            deletions=self.deletions,
            leader_quota=self.leader_quota,
            in_sync_counts=self.in_sync_counts,
            tells_followers=static_settings.replica_selector_class is not None,
        )
        self._log_manager = log_manager
        moves = log_manager.moves
        moves.pace, moves.high_watermark, moves.on_moved = (
            self.folder_quota,
            self.high_watermark_of,
            self.log_moved,
        )
        self._by_name: dict[str, dict[int, Partition]] = {}
        self.by_name_bytes: dict[bytes, dict[int, Partition]] = {}
        self.by_topic_id: dict[bytes, dict[int, Partition]] = {}
        self.takes_part = True
        """False until this broker's registration is in the metadata: until then it neither leads nor follows.
        What it led before a restart it leads in the next leader epoch only, since the end of its logs may be
        lost; and a fetch without its broker epoch could be mistaken for one of its last life (KIP-903)."""
        self.stats: dict[str, TopicStats] = {}
        self.unopened: dict[str, str] = {}
        """Topics with a partition that could not be opened or created, and why; it is retried."""
        self.flush_before_commit = static_settings.moldau_durability == "group"
        self._topic_ids: dict[str, bytes] = {}
        self._image = EMPTY_IMAGE
        self.on_internal_topic: Callable[[str, Image], None] = lambda name, image: None
        """Called when the partitions of an internal topic are in step with the image: its coordinator need
        not wait for those of other topics."""
        self.on_made_again: Callable[[str, int], None] = lambda topic, index: None
        """Called with each replica that was offline, and is made again because another one leads."""
        self.closed = False
        """Whether the broker has stopped: closed partitions are not offline."""
        self._work = WorkList(self._bring, self._remove, self._not_brought)
        self._change_rates()

    def _leads_certainly(self, partition: Partition, verdict: Hashable) -> bool:
        asked = (partition.topic_id, partition.index, partition.leader_epoch, verdict)
        return self.leadership_check is None or self.leadership_check.leads_certainly(asked)

    def _make_quota(self, clock: Clock) -> ReplicationQuota:
        return ReplicationQuota(
            clock.monotonic_ms,
            window_count=self._static.replication_quota_window_num,
            window_ms=self._static.replication_quota_window_size_seconds * 1_000,
        )

    def serve(self, lane: SlowLane) -> None:
        """From now on clients are served: many partitions are opened and closed in slices."""
        self._work.lane = lane

    # Looking up

    def partition(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker holds it."""
        partitions = self._by_name.get(topic)
        return None if partitions is None else partitions.get(index)

    def absence(self, key: str | bytes, index: int, *, by_id: bool = False) -> int:
        """The error code for a partition that is not open here: NOT_LEADER_OR_FOLLOWER when only other
        brokers have a replica, else UNKNOWN_TOPIC_OR_PARTITION. `key` is the topic's name, as text or bytes,
        or its id.
        """
        image = self._image
        name = key if isinstance(key, str) else None
        if isinstance(key, bytes) and not by_id:
            name = key.decode(errors="replace")
        state = image.topic_by_id(key) if by_id and isinstance(key, bytes) else image.topics.get(name or "")
        if state is None or not 0 <= index < len(state.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._node_id in state.partitions[index].replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # it is about to be opened
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def partition_count(self) -> int:
        """How many partitions this broker holds."""
        return sum(map(len, self._by_name.values()))

    def partitions(self) -> Iterator[Partition]:
        """All partitions that this broker holds."""
        for partitions in self._by_name.values():
            yield from partitions.values()

    # Following the metadata

    def apply(self, old: Image, new: Image, changes: Sequence[Change]) -> "asyncio.Future[None] | None":
        """Bring what is open here in step with `new`: None when that is done, else a future for when it is.

        A deleted topic is not found any more at once; a new partition is found once its log is open. Until
        then clients get UNKNOWN_TOPIC_OR_PARTITION, which they retry.
        """
        self._image = new
        version = new.version
        if not self.takes_part and any(
            isinstance(each, BrokerRegistered) and each.node_id == self._node_id for each in changes
        ):
            self.takes_part = True
            for name, _ in _internal_first(new):
                self._work.add(name, version)
        if old.configs is not new.configs:
            self._change_rates()
        if old.brokers is not new.brokers:
            self.deletions.brokers_changed()
        if old.topics is not new.topics:
            for name in [name for name in self._by_name if name not in new.topics]:
                self._delete_topic(name, version)
            known = old.topics
            for name, topic in _internal_first(new):
                if known.get(name) is not topic or name not in self._by_name:
                    if self._topic_ids.get(name, topic.topic_id) != topic.topic_id:
                        self._delete_topic(name, version)  # deleted and created again between two images
                    self._work.add(name, version)
        for name in _reconfigured(old, new):
            self._work.add(name, version)
        if old.mirrors is not new.mirrors:
            for name in {**old.mirrors, **new.mirrors}:
                if old.mirrors.get(name) is not new.mirrors.get(name) and name in new.topics:
                    self._work.add(name, version)
        return self._work.work(version)

    def _change_rates(self) -> None:
        settings = effective_broker_settings(self._image, self._static, self._node_id)
        self.leader_quota.bytes_per_second = settings.leader_replication_throttled_rate
        self.follower_quota.bytes_per_second = settings.follower_replication_throttled_rate
        self.folder_quota.bytes_per_second = settings.replica_alter_log_dirs_io_max_bytes_per_second

    def _bring(self, name: str, due: Due) -> Iterator[None]:
        """The steps that bring a topic in step with the newest image, a partition each."""
        topic = self._image.topics.get(name)
        if topic is None:
            return
        settings = topic_settings(self._image, self._static, name)
        partitions = self._by_name.get(name)
        if partitions is None:
            partitions = {}
            self._by_name[name] = partitions
            self.by_name_bytes[name.encode()] = partitions
            self.by_topic_id[topic.topic_id] = partitions
            self._topic_ids[name] = topic.topic_id
        throttled = (
            throttled_here(settings.leader_replication_throttled_replicas, self._node_id),
            throttled_here(settings.follower_replication_throttled_replicas, self._node_id),
        )
        for index, state in enumerate(topic.partitions):
            self._bring_partition(topic, partitions, index, state, settings, throttled, due.version)
            yield
            if not self._work.is_current(name, due) or self._by_name.get(name) is not partitions:
                return  # it changed between two slices, or went
        if topic.internal:
            self.on_internal_topic(name, self._image)

    def _bring_partition(
        self,
        topic: TopicState,
        partitions: dict[int, Partition],
        index: int,
        state: PartitionState,
        settings: TopicSettings,
        throttled: tuple[ThrottledPartitions, ThrottledPartitions],
        version: int,
    ) -> None:
        partition = partitions.get(index)
        if not self.takes_part:
            state = state._replace(leader=NO_LEADER)
        if partition is not None and not partition.online and self._may_be_made_again(partition, state):
            self._log_manager.startup.missing.withhold_no_more((topic.name, index))
            partition.close(ErrorCode.KAFKA_STORAGE_ERROR)
            del partitions[index]
            partition = None
            self.on_made_again(topic.name, index)
        if partition is None:
            if self._node_id not in state.replicas:
                return
            opened = self._open(topic, index, settings)
            if opened is None:
                return
            stats = self.stats.setdefault(topic.name, TopicStats())
            saved = self._log_manager.checkpoints.high_watermarks.get((topic.name, index), 0)
            partition = Partition(topic.name, topic.topic_id, index, opened, self._shared, stats, saved)
            partition.online = not opened.offline
            partitions[index] = partition
        elif self._node_id not in state.replicas:
            del partitions[index]
            partition.become(state)  # waiters are answered now, its files go later
            self._work.remove(partition, version)
            return
        elif partition.log.settings is not settings:
            partition.log.reconfigure(settings)
        # flush.messages=1 is how a Kafka user asks for an fsync before every acknowledgement.
        as_leader, as_follower = throttled
        mirror = self._image.mirrors.get(topic.name)
        partition.configure(
            flush_before_commit=self.flush_before_commit or settings.flush_messages == 1,
            leader_throttled=index in as_leader,
            follower_throttled=index in as_follower,
            is_mirror=mirror is not None and mirror.is_read_only(index),
        )
        partition.become(state)

    def _may_be_made_again(self, partition: Partition, state: PartitionState) -> bool:
        """Whether the log, which is missing and was withheld because an empty one must not lead, may follow
        another replica that leads by now.
        """
        return (
            state.leader not in (NO_LEADER, self._node_id)
            and self._node_id in state.replicas
            and self._log_manager.startup.missing.is_withheld((partition.topic, partition.index))
        )

    def _open(self, topic: TopicState, index: int, settings: TopicSettings) -> Log | None:
        try:
            sole_copy = len(topic.partitions[index].replicas) == 1
            opened = self._log_manager.create(
                topic.name, index, topic.topic_id, settings, sole_copy=sole_copy
            )
        except OSError as error:
            if topic.name not in self.unopened:  # fifty partitions have one cause
                log.error(
                    "%s-%d cannot be opened or created: %s; the topic's partitions are retried",
                    topic.name,
                    index,
                    error,
                )
            self.unopened[topic.name] = str(error)
            return None
        if opened.settings is not settings:
            opened.reconfigure(settings)
        return opened

    def open_missing(self, image: Image) -> None:
        """Try again to open what could not be opened before, if there is room now."""
        if not self.unopened or all(each.full or each.offline for each in self._log_manager.directories):
            return
        names, self.unopened = self.unopened, {}
        for name in names:
            if name in image.topics:
                self._work.add(name, image.version)
        self._work.work(image.version)

    def _not_brought(self, name: str, error: Exception) -> None:
        """Partitions of the topic are missing, or are not what the metadata says: health tells it."""
        self.unopened[name] = f"{type(error).__name__}: {error}"

    def _broker_epoch(self, node_id: int) -> int | None:
        """The registered epoch of a broker that may join in-sync sets; None: it may not."""
        broker = self._image.brokers.get(node_id)
        return broker.broker_epoch if broker is not None and broker.active else None

    def _is_stranger(self, node_id: int, broker_epoch: int) -> bool:
        """Whether no broker is registered with this id and epoch. A registered one always tells its epoch,
        and is a stranger after it has registered anew, until that has come here.
        """
        broker = self._image.brokers.get(node_id)
        known = ANY_BROKER_EPOCH if broker is None else broker.broker_epoch
        return broker_epoch != known

    def set_strays_aside(self) -> None:
        """Rename the folders of logs that belong to no topic in the image to `-stray`: the topic was deleted
        while the broker was down. They are not deleted, in case the metadata is what is wrong. This ends the
        start: partitions opened later are new.
        """
        self._log_manager.startup.is_over()
        self._log_manager.set_unopened_aside(self._is_held_here)
        for each in self._log_manager:
            if not self._is_held_here(each.topic, each.partition):
                path = self._log_manager.set_aside(each)
                name = f"{each.topic}-{each.partition}"
                message = "%s belongs to no topic of this cluster: set aside as %s; remove it if it may go"
                log.warning(message, name, path)

    def _is_held_here(self, topic: str, index: int) -> bool:
        """Whether the metadata knows this partition, and here. (It may know one whose log cannot be opened
        yet: the disk is full.)
        """
        state = self._image.topics.get(topic)
        return (
            state is not None
            and index < len(state.partitions)
            and self._node_id in state.partitions[index].replicas
        )

    def _delete_topic(self, name: str, version: int) -> None:
        """The topic is not found any more; its partitions are closed and their logs removed in slices."""
        partitions = self._by_name.pop(name)
        self.by_name_bytes.pop(name.encode(), None)
        self.stats.pop(name, None)
        self.by_topic_id.pop(self._topic_ids.pop(name), None)
        for partition in partitions.values():
            self._work.remove(partition, version)

    def _remove(self, partition: Partition) -> None:
        """Close a partition that the metadata has no longer, or not here, and remove its log."""
        known = self._image.topics.get(partition.topic)
        is_elsewhere = known is not None and known.topic_id == partition.topic_id
        partition.close(
            ErrorCode.NOT_LEADER_OR_FOLLOWER if is_elsewhere else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        if self._log_manager.get(partition.topic, partition.index) in (partition.log, None):
            self._log_manager.delete_async(partition.topic, partition.index)

    def close(self) -> None:
        """The broker stops: everyone who waits is answered, and nothing is appended any more."""
        self._work.stop()
        self._timeouts.stop()
        self._lags.stop()
        for partition in [*self.partitions(), *self._work.leaving()]:
            partition.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # Errors of the disk

    def log_moved(self, current: Log, future: Log) -> None:
        """The log of a partition has moved to another directory."""
        partition = self.partition(current.topic, current.partition)
        if partition is not None and partition.log is current:
            partition.replace_log(future)

    def storage_failed(self, partition: Partition, error: OSError) -> None:
        """A read failed; the log manager decides whether the whole directory is lost."""
        self._log_manager.open_logs.storage_failed(partition.log, error)

    def close_offline(self) -> None:
        """Close every partition whose log has gone offline with its directory."""
        for partition in self.partitions():
            if partition.online and partition.log.offline:
                partition.close(ErrorCode.KAFKA_STORAGE_ERROR)

    def high_watermark_of(self, log: Log) -> int:
        """The high watermark of the log's partition; the log start offset if it has none."""
        partition = self.partition(log.topic, log.partition)
        return log.log_start_offset if partition is None else partition.high_watermark


def _internal_first(image: Image) -> Iterator[tuple[str, TopicState]]:
    """The topics of coordinators, for which clients of all topics wait, before the others."""
    topics = image.topics
    for name in (GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC):
        if name in topics:
            yield name, topics[name]
    yield from topics.items()


def _reconfigured(old: Image, new: Image) -> Iterable[str]:
    """The topics whose settings may have changed from one image to the other."""
    before, after = old.configs, new.configs
    if before is after:
        return ()
    names = []
    for key in {**before, **after}:
        if before.get(key) is not after.get(key):
            if key[0] is ResourceType.BROKER:
                return new.topics  # a broker's settings are its topics' defaults
            if key[0] is ResourceType.TOPIC and key[1] in new.topics:
                names.append(key[1])
    return names
