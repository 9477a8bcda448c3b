"""Who is in sync and who may lead: the rules by which one partition's state follows another (KIP-966).

    in-sync set        has every committed record, and the high watermark waits for it
    eligible (`elr`)   left the in-sync set while it was smaller than `min.insync.replicas`. The high
                       watermark has stood still since, so they too have every committed record
    lost               a replica whose broker's last stop was not clean: the end of its log may be gone, so it
                       is neither, as long as another replica is one of them

Only an in-sync replica may lead, or an eligible one when nobody is in sync. A leader that had lost its tail
would make the others cut off acknowledged records. The last replica that is left stays although it is lost:
nobody knows more than it does, and the partition would stay without a leader for ever.

Each result is one step: `partition_epoch` rises with every change, `leader_epoch` whenever the leader changes
or leads anew after a restart. These are functions of one partition; whom they concern is decided in
membership.py (brokers), election.py (administrators), partitions.py (leaders).
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from moldau.metadata.image import NO_LEADER, PartitionState


class Rules(NamedTuple):
    """What a topic's settings say here: `min.insync.replicas` and `unclean.leader.election.enable`."""

    min_isr: int = 1
    unclean: bool = False


def best_leader(state: PartitionState, live: Collection[int], *, unclean: bool) -> int:
    """The present leader if it lives and is in sync, else the first such replica; an eligible one when nobody
    is in sync; with `unclean`, else the first that lives; NO_LEADER when there is none."""
    candidates = [node for node in (state.leader, *state.replicas) if node in live]
    for node in candidates:
        if node in (state.isr or state.elr):
            return node
    return candidates[0] if unclean and candidates else NO_LEADER


def with_leader(state: PartitionState, leader: int, min_isr: int = 1) -> PartitionState:
    """The partition under this leader (or none), in the next leader epoch. One from outside the in-sync set
    is alone in the new set."""
    isr, elr = state.isr, state.elr
    if leader != NO_LEADER and leader not in isr:
        isr, elr = (leader,), tuple(node for node in elr if node != leader) if leader in elr else ()
    if len(isr) >= min(min_isr, len(state.replicas)):
        elr = ()  # the high watermark moves on without them
    return PartitionState(leader, state.leader_epoch + 1, state.partition_epoch + 1, state.replicas, isr, elr)


def with_in_sync(
    state: PartitionState, isr: Sequence[int], min_isr: int = 1, lost: Collection[int] = ()
) -> PartitionState:
    """The partition with this in-sync set, whoever leads it; `state` itself when nothing changes."""
    elr: tuple[int, ...] = ()
    if len(isr) < min(min_isr, len(state.replicas)):
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
) -> PartitionState:
    """The partition when these brokers live; `state` itself when that changes nothing.

    `restarted`: those that live, and have been registered anew since the state was decided; `lost`: those of
    them whose last stop was not clean.
    """
    isr = tuple(node for node in state.isr if node in live and node not in lost)
    changed = with_in_sync(state, isr, rules.min_isr, lost)
    leader = best_leader(changed, live, unclean=rules.unclean)
    if leader == state.leader and leader not in restarted:
        return changed
    if leader == state.leader == NO_LEADER:
        return changed
    elected = with_leader(changed, leader, rules.min_isr)
    return elected._replace(partition_epoch=state.partition_epoch + 1)
