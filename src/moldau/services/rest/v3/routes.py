"""All operations of v3: importing their files registers them."""

from __future__ import annotations

from moldau.services.rest.v3 import (  # noqa: F401
    acls,
    clusters,
    configs,
    groups,
    lags,
    partitions,
    produce,
    produce_batch,
    read_records,
    replicas,
    topics,
)
from moldau.services.rest.v3.operations import OPERATIONS, Operation


def operations() -> tuple[Operation, ...]:
    """The operations, in the order of the document."""
    return tuple(sorted(OPERATIONS, key=lambda each: (each.tag, each.path, each.method)))
