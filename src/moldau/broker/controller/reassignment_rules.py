"""The rules of a reassignment, for one partition: its replicas change, in order or number (KIP-455).

    replicas 1 2 3, to become 3 4
    asked       replicas 3 4 1 2, original 1 2 3, target 3 4     4 follows the leader and catches up
    completed   replicas 3 4                                     once 3 and 4 are in sync
    cancelled   replicas 1 2 3                                   4 is removed

All of it is in the metadata, so that it goes on under any leader and controller. It is completed in the
append that brings the last target replica into sync, and at once where nothing has to be copied. Until then
the original replicas stay, and `min.insync.replicas` counts as if there were only those. A leader outside the
target is replaced with the completion. A new target replaces the former one; the original stays.

Invariants: replicas are removed only if an in-sync or eligible one remains (both have every committed
record), or all doubtful ones do, and the partition keeps a leader. The leader epoch rises whenever a replica
is removed: a fetch that it sent before must not count for it once it is added again, with an empty log.

Called from reassignment.py (requests) and wherever in-sync sets are decided (partitions.py, membership.py,
election.py). Not here: catching up (replication/), removal of folders (replication/manager.py), throttles.
"""

from collections.abc import Collection

from moldau.broker.controller.in_sync import Rules, best_leader, with_in_sync, with_leader
from moldau.broker.metadata.image import NO_LEADER, PartitionState


def with_target(
    state: PartitionState, target: tuple[int, ...], live: Collection[int], rules: Rules
) -> PartitionState | None:
    """The partition on its way to `target`, or there already; `state` itself when nothing changes. None when
    no replica that has every committed record would remain and lead.
    """
    if target == (state.target or state.replicas):
        return state
    original = state.original or state.replicas
    if target == original:  # a cancellation, also where the replicas were named
        changed = state._replace(replicas=original, original=(), target=())
    else:
        removing = tuple(sorted(node for node in original if node not in target))
        changed = state._replace(replicas=target + removing, original=original, target=target)
    after = _without_removed(state, changed, live, rules)
    return None if after is None else _numbered(completed(after, live, rules), state)


def completed(state: PartitionState, live: Collection[int], rules: Rules) -> PartitionState:
    """The partition after its reassignment, when all of its target is in sync and one of it can lead; else
    `state` itself. Its partition epoch is that of `state`, which is not decided yet.
    """
    if not state.target or not set(state.target) <= set(state.isr):
        return state
    changed = state._replace(replicas=state.target, original=(), target=())
    after = _without_removed(state, changed, live, rules)
    return state if after is None else after._replace(partition_epoch=state.partition_epoch)


def _without_removed(
    before: PartitionState, after: PartitionState, live: Collection[int], rules: Rules
) -> PartitionState | None:
    """`after`, with only its own replicas in the in-sync set, eligible, and leading; None: it cannot be."""
    kept = after.replicas
    if set(before.replicas) <= set(kept):
        return after
    isr = tuple(node for node in before.isr if node in kept)
    elr = tuple(node for node in before.elr if node in kept)
    doubtful = tuple(node for node in before.doubtful if node in kept)
    if doubtful != before.doubtful and not (isr or elr or rules.unclean):
        return None  # the one that is removed may have the longest log
    leader = before.leader if before.leader in kept else NO_LEADER
    after = with_in_sync(
        after._replace(leader=leader, isr=isr, elr=elr, doubtful=doubtful), isr, rules.min_isr
    )
    leader = best_leader(after, live, unclean=rules.unclean and not isr and not elr)
    if leader == NO_LEADER and (before.leader != NO_LEADER or not (isr or elr)):
        return None
    return with_leader(after, leader, rules.min_isr)


def _numbered(after: PartitionState, before: PartitionState) -> PartitionState:
    """With the next partition epoch."""
    return after._replace(partition_epoch=before.partition_epoch + 1)
