"""Faults that the simulation must find: one rule of the product broken at a time (planted.py runs them).

Each is a replacement in one source file, made while the module is imported. What is replaced must be there
exactly once: when the product's code changes, `test_planted_faults.py` names the entry to bring along.
"""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """A fault by name: `old` becomes `new` in the module's source."""

    name: str
    breaks: str
    module: str
    old: str
    new: str
    kinds: str = ""
    """The kind of faults under which it shows (sim_cluster_random.py), if it cannot under others."""


_IN_SYNC = "moldau.broker.controller.in_sync"
_PARTITIONS = "moldau.broker.controller.partitions"
_ROLE = "moldau.broker.replication.role"
_PARTITION = "moldau.broker.replication.partition"
_LEADER_FETCH = "moldau.broker.replication.following.leader_fetch"
_MANAGER = "moldau.broker.replication.manager"
_COORDINATOR_LOG = "moldau.broker.replication.coordinator_log"
_SHARD = "moldau.broker.coordinator.shard"

FAULTS = (
    # In-sync sets and elections
    Planted(
        "alter-partition-without-epochs",
        "AlterPartition is no compare-and-set any more: whoever led once changes the in-sync set",
        _PARTITIONS,
        """    if alter.leader_epoch < state.leader_epoch:
        raise Refusal(ErrorCode.FENCED_LEADER_EPOCH)
    if node_id != state.leader:
        raise Refusal(ErrorCode.INVALID_REQUEST, f"Broker {node_id} does not lead this partition.")
    if alter.partition_epoch < state.partition_epoch:
        raise Refusal(ErrorCode.INVALID_UPDATE_VERSION)
""",
        "",
    ),
    Planted(
        "alter-partition-without-broker-epochs",
        "a follower that was registered anew gets into the in-sync set by what it had before (KIP-903)",
        _PARTITIONS,
        "if alter.broker_epochs and alter.broker_epochs[position] not in (-1, broker.broker_epoch):",
        "if False:",
    ),
    Planted(
        "in-sync-change-with-other-epochs",
        "an in-sync change of unknown outcome is made again with the epochs of now",
        _ROLE,
        "        self._ask_again = False\n        return (self.asked,)\n\n    def _ask(",
        "        return self._ask(self.asked.in_sync)\n\n    def _ask(",
    ),
    Planted(
        "enters-in-sync-anywhere",
        "a follower is taken into the in-sync set wherever it is",
        _ROLE,
        "                and offset >= self.high_watermark\n"
        "                and offset >= self.epoch_start_offset\n",
        "",
    ),
    Planted(
        "enters-in-sync-before-epoch-start",
        "a follower is taken into the in-sync set before it has reached the start of the leader's epoch",
        _ROLE,
        "                and offset >= self.epoch_start_offset\n",
        "",
    ),
    Planted(
        "unclean-leader-silently",
        "any live replica leads when none is in sync or eligible, with unclean elections off",
        _IN_SYNC,
        "    if not unclean or not candidates:\n",
        "    if not candidates:\n",
    ),
    Planted(
        "preferred-leader-out-of-sync",
        "ElectLeaders lets the first replica lead although it is not in sync",
        "moldau.broker.controller.election",
        "if preferred not in live or preferred not in state.isr:",
        "if preferred not in live:",
    ),
    Planted(
        "loser-stays-in-sync",
        "a broker that lost the end of its log keeps its place in the in-sync set",
        _IN_SYNC,
        "isr = tuple(node for node in state.isr if node in live and node not in lost)",
        "isr = tuple(node for node in state.isr if node in live)",
    ),
    Planted(
        "same-leader-epoch",
        "another leader is elected in the same leader epoch",
        _IN_SYNC,
        "leader_epoch=state.leader_epoch + 1,",
        "leader_epoch=state.leader_epoch,",
    ),
    Planted(
        "reassignment-ends-early",
        "a reassignment is complete when one of its target is in sync",
        "moldau.broker.controller.reassignment_rules",
        "if not state.target or not set(state.target) <= set(state.isr):",
        "if not state.target or not set(state.target) & set(state.isr):",
    ),
    Planted(
        "controller-without-fence",
        "the store takes what a deposed controller, or one with an old image, appends",
        "sim_store",
        "            if version != ensemble.image.version:\n",
        "            newest = ensemble.image.version\n"
        "            if version != newest and (newest < 12 or version < newest - 2):\n",
    ),
    # High watermark and acknowledgements
    Planted(
        "early-high-watermark",
        "the high watermark waits for two in-sync replicas, and not for all",
        _ROLE,
        "                node in in_sync\n                or (asked",
        "                node in in_sync[:2]\n                or (asked",
    ),
    Planted(
        "high-watermark-without-asked",
        "the high watermark ignores a member whose entry into the in-sync set is under way (KIP-497)",
        _ROLE,
        "                or (asked is not None and node in asked.in_sync)\n"
        "                or (\n"
        "                    follower.eligible\n",
        "                or (\n                    False\n",
    ),
    Planted(
        "high-watermark-under-min",
        "the high watermark moves with fewer in sync than min.insync.replicas (KIP-966)",
        _ROLE,
        "        if self.is_under_min_in_sync:\n            return self.high_watermark\n",
        "",
    ),
    Planted(
        "acks-all-at-local-append",
        "acks=all is answered when the leader alone has the records",
        _ROLE,
        "        if acks == 1:\n            if end_offset > self.progress:",
        "        if acks:\n            if end_offset > self.progress:",
    ),
    Planted(
        "answer-before-sync",
        "with durability `group` a record counts once it is written, not once it is on the disk",
        _ROLE,
        "return NOTHING if self.flush_before_commit else self._progressed(end_offset)",
        "return self._progressed(end_offset)",
        "power",
    ),
    Planted(
        "checkpoint-too-high",
        "the checkpoint of high watermarks has the ends of the logs",
        "moldau.broker.replication.high_watermark_checkpoint",
        "high_watermarks[each.topic, each.index] = each.high_watermark",
        "high_watermarks[each.topic, each.index] = each.log.log_end_offset",
    ),
    Planted(
        "follower-takes-its-end",
        "a follower's high watermark is its own end, whatever its leader's is",
        _ROLE,
        "end_offset = min(self.leader_high_watermark, self.progress)",
        "end_offset = self.progress",
    ),
    Planted(
        "follower-serves-its-end",
        "consumers of a follower see what lies above its high watermark",
        _PARTITION,
        "        end_offset = stable if committed else high_watermark\n        if replica_id",
        "        end_offset = source.written_end_offset if any_replica and not self.leads else stable if"
        " committed else high_watermark\n        if replica_id",
    ),
    # Histories
    Planted(
        "no-divergence",
        "the leader does not compare a follower's history with its own",
        _PARTITION,
        "        return (epoch, end_offset) if epoch < last_fetched_epoch or end_offset < offset else None",
        "        return None",
    ),
    Planted(
        "truncation-left-out",
        "a follower that has diverged keeps its records, and goes on behind them",
        _ROLE,
        "        return (TruncateTo(min(offset, self.log_end_offset)),)",
        "        return (TruncateTo(self.log_end_offset),)",
    ),
    Planted(
        "truncation-by-high-watermark",
        "a follower of a new leader cuts its log at its own high watermark, which may be late (KIP-101)",
        _ROLE,
        "                out.append(StopFetching())\n            else:\n                out += self._fetch()",
        "                out.append(StopFetching())\n            else:\n"
        "                out.append(TruncateTo(self.high_watermark))",
    ),
    Planted(
        "leader-epoch-fence",
        "requests with another leader epoch are served",
        _PARTITION,
        "        if leader_epoch >= 0 and leader_epoch != self.leader_epoch:\n            older",
        "        if False:\n            older",
    ),
    # Producers
    Planted(
        "follower-without-producers",
        "followers keep no producer state: a retry at the next leader is appended again",
        "moldau.broker.log.appending.follower_append",
        "            writer.note(view, view.base_offset, view.leader_epoch, now_ms)\n",
        "            before = dict(writer._producers.states)\n"
        "            writer.note(view, view.base_offset, view.leader_epoch, now_ms)\n"
        "            if view.producer_id >= 0 and not view.is_transactional:\n"
        "                writer._producers.states.clear()\n"
        "                writer._producers.states.update(before)\n",
    ),
    Planted(
        "producers-lost-at-restart",
        "producer state is not read again at a start",
        "moldau.broker.log.recovery.opening",
        "            self._rebuild(producers, end_offset, stale)\n        return producers",
        "            pass\n        return producers",
    ),
    Planted(
        "repeats-are-appended",
        "a batch that was appended already is not recognised",
        "moldau.broker.log.state.producers",
        "                if (batch.base_sequence, batch.last_sequence) == wanted:",
        "                if False:",
    ),
    Planted(
        "producer-epoch-fence",
        "a producer that a later epoch has fenced still writes",
        "moldau.broker.log.state.producers",
        "        if producer_epoch >= state.producer_epoch:\n            return None\n",
        "        return None\n",
    ),
    # Transactions and coordinators
    Planted(
        "lso-off-by-one",
        "the last stable offset lies behind the first record of an open transaction",
        "moldau.broker.log.state.open_transactions",
        "        if not unreplicated:\n            return ongoing\n",
        "        if not unreplicated:\n            return None if ongoing is None else ongoing + 1\n",
    ),
    Planted(
        "lso-ignores-replication",
        "a transaction is stable once its marker is appended, and not once that is committed",
        "moldau.broker.log.state.open_transactions",
        "        if not unreplicated:\n            return ongoing\n",
        "        return ongoing\n",
    ),
    Planted(
        "marker-dropped",
        "a marker that a partition without a leader did not get is not sent again",
        "moldau.broker.coordinator.transaction.delivery",
        "            if error_code in DONE:\n                pending.remaining",
        "            if True:\n                pending.remaining",
    ),
    Planted(
        "marker-answered-at-append",
        "a marker counts as written once its leader alone has it",
        "moldau.broker.replication.markers",
        "        partition.wait_for(result.last_offset + 1, waiter, timeout_ms=timeout_ms)",
        "        partition.wait_for(0, waiter, timeout_ms=timeout_ms)",
    ),
    Planted(
        "coordinator-answers-at-append",
        "a coordinator answers, and applies offsets, before they are committed",
        _COORDINATOR_LOG,
        "            partition.wait_for(result.last_offset + 1, _AppendWaiter(future))",
        "            partition.wait_for(0, _AppendWaiter(future))",
    ),
    Planted(
        "coordinator-reads-uncommitted",
        "a coordinator's reads do not wait for what was decided before them",
        _SHARD,
        "            and not self._queue\n"
        "            and self._in_flight is None\n"
        "            and result.response",
        "            and result.response",
    ),
    Planted(
        "coordinator-before-loaded",
        "a coordinator serves before its log is read",
        _SHARD,
        "        self.loading = True\n",
        "        self.loading = False\n",
    ),
    Planted(
        "coordinator-loads-uncommitted",
        "a coordinator serves before the end of its log is committed",
        _COORDINATOR_LOG,
        "        if partition.high_watermark < partition.log.log_end_offset:\n",
        "        if False:\n",
    ),
    # Log starts, sessions, topics
    Planted(
        "delete-records-beyond-high-watermark",
        "DeleteRecords deletes what is not committed",
        _PARTITION,
        "        if not 0 <= offset <= self.high_watermark:\n",
        "        if not 0 <= offset <= self.log.log_end_offset:\n",
    ),
    Planted(
        "log-start-not-followed",
        "followers do not take over the leader's log start offset",
        "moldau.broker.log.log",
        "            self.increment_log_start_offset(min(leader_log_start_offset, self.written_end_offset))",
        "            pass",
    ),
    Planted(
        "fetch-session-skips",
        "a partition that is added to a fetch session is not served",
        "moldau.broker.replication.fetch_session",
        "            if target is None:\n                targets",
        "            if target is None:\n                continue\n                targets",
    ),
    Planted(
        "topic-id-ignored",
        "a topic that was made again under its name goes on with the old log",
        _MANAGER,
        "                    if self._topic_ids.get(name, topic.topic_id) != topic.topic_id:\n",
        "                    if False:\n",
    ),
)
