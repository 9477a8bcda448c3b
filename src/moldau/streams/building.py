"""Builds the flows of an app in an order in which the schemas that they read are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from moldau.streams.errors import SchemaMissing
from moldau.streams.flow import Flow

Built = TypeVar("Built")


def build_all(flows: Sequence[Flow], build: Callable[[Flow], Built]) -> list[Built]:
    """What `build` makes of each flow, in the order of the flows.

    Building a flow registers the schema of its output. A flow that misses a schema is built again after the
    others; SchemaMissing if that does not help.
    """
    built: dict[str, Built] = {}
    waiting = list(flows)
    while waiting:
        missing: SchemaMissing | None = None
        for flow in waiting:
            try:
                built[flow.name] = build(flow)
            except SchemaMissing as failure:
                missing = missing or failure
        left = [flow for flow in waiting if flow.name not in built]
        if missing is not None and len(left) == len(waiting):
            raise missing
        waiting = left
    return [built[flow.name] for flow in flows]
