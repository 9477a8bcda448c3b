"""The rules of in-sync sets, eligible leader replicas and leader election, for one partition (KIP-966).

    in-sync set        has every committed record, and the high watermark waits for it
    eligible (`elr`)   left the in-sync set while it was smaller than `min.insync.replicas`. The high
                       watermark has stood still since, so they too have every committed record
    lost               a replica whose broker's last stop was not clean: the end of its log may be gone, so it
                       is neither, unless no other replica is

Only an in-sync replica may lead, or an eligible one when none is in sync: a leader that had lost the end of
its log would make the others truncate acknowledged records. The last remaining replica stays eligible even if
it is lost, or the partition would never have a leader again.

`partition_epoch` rises with every change, `leader_epoch` with every election, also of the same broker after a
restart. Called from membership.py (brokers came or went), election.py (ElectLeaders) and partitions.py
(AlterPartition).
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from moldau.metadata.image import NO_LEADER, PartitionState


class Rules(NamedTuple):
    """A topic's `min.insync.replicas` and `unclean.leader.election.enable`."""

    min_isr: int = 1
    unclean: bool = False


def best_leader(
    state: PartitionState, live: Collection[int], *, unclean: bool, leaving: Collection[int] = ()
) -> int:
    """The present leader if it is live and in sync, else the first such replica; an eligible one when none is
    in sync; with `unclean`, else the first live one; NO_LEADER when there is none. Of those who are `leaving`
    (shutting down), only the present leader.
    """
    candidates = [node for node in state.replicas if node in live and node not in leaving]
    if state.leader in live:
        candidates.insert(0, state.leader)
    for node in candidates:
        if node in (state.isr or state.elr):
            return node
    return candidates[0] if unclean and candidates else NO_LEADER


def with_leader(state: PartitionState, leader: int, min_isr: int = 1) -> PartitionState:
    """The partition under this leader (or none), in the next leader epoch. A leader from outside the in-sync
    set is the only member of the new set.
    """
    isr, elr = state.isr, state.elr
    if leader != NO_LEADER and leader not in isr:
        isr, elr = (leader,), tuple(node for node in elr if node != leader) if leader in elr else ()
    if len(isr) >= min(min_isr, state.replication_factor):
        elr = ()  # the high watermark moves on without them
    return state._replace(
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        isr=isr,
        elr=elr,
    )


def with_in_sync(
    state: PartitionState, isr: Sequence[int], min_isr: int = 1, lost: Collection[int] = ()
) -> PartitionState:
    """The partition with this in-sync set, whoever leads it; `state` itself when nothing changes."""
    elr: tuple[int, ...] = ()
    if len(isr) < min(min_isr, state.replication_factor):
        stayed = [*state.isr, *state.elr]
        elr = tuple(n for n in state.replicas if n in stayed and n not in isr and n not in lost)
        if not isr and not elr and stayed:
            elr = (state.leader if state.leader in stayed else stayed[0],)  # the last that is left
    if (tuple(isr), elr) == (state.isr, state.elr):
        return state
    return state._replace(isr=tuple(isr), elr=elr, partition_epoch=state.partition_epoch + 1)


def after_brokers(
    state: PartitionState,
    live: Collection[int],
    restarted: Collection[int],
    lost: Collection[int],
    rules: Rules,
    leaving: Collection[int] = (),
) -> PartitionState:
    """The partition's state with these live brokers; `state` itself when nothing changes.

    `restarted`: live brokers registered again since the state was decided; `lost`: those of them whose last
    stop was not clean, and those whose replica is offline, which are not live here; `leaving`: live brokers
    that are shutting down.
    """
    isr = tuple(node for node in state.isr if node in live and node not in lost)
    changed = with_in_sync(state, isr, rules.min_isr, lost)
    leader = best_leader(changed, live, unclean=rules.unclean, leaving=leaving)
    if leader == state.leader and leader not in restarted:
        return changed
    if leader == state.leader == NO_LEADER:
        return changed
    elected = with_leader(changed, leader, rules.min_isr)
    return elected._replace(partition_epoch=state.partition_epoch + 1)
