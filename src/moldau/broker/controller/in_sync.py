"""The rules of in-sync sets, eligible leader replicas and leader election, for one partition (KIP-966).

    in-sync set        has every committed record, and the high watermark waits for it
    eligible (`elr`)   left the in-sync set while it was smaller than `min.insync.replicas`. The high
                       watermark has stood still since, so they too have every committed record
    lost               a replica whose broker's last stop was not clean: the end of its log may be gone, so it
                       is neither, unless no other replica is

    doubtful           lost, while nobody leads and no replica is in sync: if no eligible one comes back, the
                       one of them with the longest log leads, once all of them are there (log_ends.py)

Only an in-sync replica may lead, or an eligible one when none is in sync: a leader that had lost the end of
its log would make the others truncate acknowledged records. The last remaining replica stays eligible even if
it is lost, or the partition would never have a leader again. (At metadata levels that know no doubtful ones,
that is the one that was lost last.)

Where they are switched off, it is as before KIP-966: nobody is eligible or doubtful, and the in-sync set
never becomes empty. Its last members stay in it while they are away, and the first that comes back leads.

`partition_epoch` rises with every change, `leader_epoch` with every election, also of the same broker after a
restart. Called from membership.py (brokers came or went), election.py (ElectLeaders) and partitions.py
(AlterPartition).
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from moldau.broker.metadata.image import NO_LEADER, PartitionState

_UNKNOWN = (-2, -1)

NONE_ELIGIBLE = 0
"""For `min_isr`, where eligible leader replicas are switched off (eligible.leader.replicas.version=0)."""


class Rules(NamedTuple):
    """A topic's `min.insync.replicas` (NONE_ELIGIBLE where that does not matter) and
    `unclean.leader.election.enable`. `by_log_end`: whether the cluster's metadata level knows doubtful
    replicas.
    """

    min_isr: int = 1
    unclean: bool = False
    by_log_end: bool = False


LogEnds = Mapping[int, tuple[int, int]]
"""By broker: the leader epoch of its replica's last record, and the log end offset."""


def best_leader(
    state: PartitionState,
    live: Collection[int],
    *,
    unclean: bool,
    leaving: Collection[int] = (),
    ends: LogEnds = MappingProxyType({}),
) -> int:
    """The present leader if it is live and in sync, else the first such replica; an eligible one when none is
    in sync; else the longest log among doubtful ones, if all of them are live; with `unclean`, else the
    longest log among live ones, or the first whose end is not known; NO_LEADER when there is none. Of those
    who are `leaving` (shutting down), only the present leader.
    """
    candidates = [node for node in state.replicas if node in live and node not in leaving]
    if state.leader in live:
        candidates.insert(0, state.leader)
    for node in candidates:
        if node in (state.isr or state.elr):
            return node
    doubtful = [] if state.isr or state.elr else state.doubtful
    if doubtful and all(node in candidates and node in ends for node in doubtful):
        return longest(doubtful, ends)
    if not unclean or not candidates:
        return NO_LEADER
    able = [node for node in candidates if node in state.doubtful] or candidates
    return longest(able, ends)


def longest(nodes: Sequence[int], ends: LogEnds) -> int:
    """Of these replicas the one whose log has the newest leader epoch, and is the longest of those; the first
    where they are alike."""
    return max(nodes, key=lambda node: ends.get(node, _UNKNOWN))


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
        doubtful=state.doubtful if leader == NO_LEADER else (),
        leader=leader,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        isr=isr,
        elr=elr,
    )


def with_in_sync(
    state: PartitionState,
    isr: Sequence[int],
    min_isr: int = 1,
    lost: Collection[int] = (),
    *,
    by_log_end: bool = False,
) -> PartitionState:
    """The partition with this in-sync set, whoever leads it; `state` itself when nothing changes."""
    if not isr and min_isr == NONE_ELIGIBLE:
        isr = _last_in_sync(state, lost)
    elr: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()
    if len(isr) < min(min_isr, state.replication_factor):
        stayed = [*state.isr, *state.elr]
        elr = tuple(n for n in state.replicas if n in stayed and n not in isr and n not in lost)
        if not isr and (by_log_end or state.doubtful):
            stayed += state.doubtful
            doubtful = tuple(n for n in state.replicas if n in stayed and n not in elr)
        if not isr and not elr and len(doubtful) < 2 and stayed:
            elr = (state.leader if state.leader in stayed else stayed[0],)  # the last that is left
            doubtful = ()
    if (tuple(isr), elr, doubtful) == (state.isr, state.elr, state.doubtful):
        return state
    return state._replace(
        isr=tuple(isr), elr=elr, doubtful=doubtful, partition_epoch=state.partition_epoch + 1
    )


def _last_in_sync(state: PartitionState, lost: Collection[int]) -> tuple[int, ...]:
    """Who stays in the in-sync set when all of it is gone: those who have lost nothing, else one."""
    last = state.isr or state.elr or state.doubtful
    if complete := tuple(node for node in last if node not in lost):
        return complete
    return (state.leader,) if state.leader in last else last[:1]


def after_brokers(
    state: PartitionState,
    live: Collection[int],
    restarted: Collection[int],
    lost: Collection[int],
    rules: Rules,
    leaving: Collection[int] = (),
    ends: LogEnds = MappingProxyType({}),
) -> PartitionState:
    """The partition's state with these live brokers; `state` itself when nothing changes.

    `restarted`: live brokers registered again since the state was decided; `lost`: those of them whose last
    stop was not clean, and those whose replica is offline, which are not live here; `leaving`: live brokers
    that are shutting down; `ends`: of doubtful replicas, as far as live brokers have told them.
    """
    isr = tuple(node for node in state.isr if node in live and node not in lost)
    changed = with_in_sync(state, isr, rules.min_isr, lost, by_log_end=rules.by_log_end)
    leader = best_leader(changed, live, unclean=rules.unclean, leaving=leaving, ends=ends)
    if leader == state.leader and leader not in restarted:
        return changed
    if leader == state.leader == NO_LEADER:
        return changed
    elected = with_leader(changed, leader, rules.min_isr)
    return elected._replace(partition_epoch=state.partition_epoch + 1)
