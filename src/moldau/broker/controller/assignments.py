"""Replica lists that a user chose: checked before they are taken over."""

from collections.abc import Generator, Sequence

from moldau.broker.controller.decision import Refusal
from moldau.broker.metadata.image import Image, PartitionState
from moldau.common.protocol.errors import ErrorCode

_AT_ONCE = 64


def check_replicas(image: Image, replicas: Sequence[int], replication_factor: int | None) -> None:
    """Refuse a list that is empty, names a broker twice or one that is not there, or differs in length from
    others."""
    if not replicas:
        raise _invalid("The manual partition assignment includes an empty replica list.")
    for position, node in enumerate(replicas):
        if node not in image.brokers:
            raise _invalid(
                f"The manual partition assignment includes broker {node}, but no such broker is registered."
            )
        if node in replicas[:position]:
            raise _invalid(f"The manual partition assignment includes the broker {node} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _invalid(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but "
            f"this is not consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def fresh_partitions(
    image: Image, placed: Sequence[Sequence[int]]
) -> Generator[None, None, tuple[PartitionState, ...]]:
    """New partitions on these replicas; those on active brokers are in sync."""
    partitions = []
    for replicas in placed:
        isr = tuple(node for node in replicas if image.brokers[node].active)
        if not isr:
            raise _invalid(
                f"All brokers of the partition assignment {list(replicas)} are fenced or shutting down."
            )
        partitions.append(PartitionState.fresh(tuple(replicas), isr))
        if not len(partitions) % _AT_ONCE:
            yield
    return tuple(partitions)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
