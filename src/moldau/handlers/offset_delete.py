"""OffsetDelete, version 0: drop committed offsets of topics that a group does not consume now."""

from typing import Any

from moldau.handlers.broker import Broker, RequestContext
from moldau.handlers.registry import handles
from moldau.protocol.messages.offset_delete import OffsetDeleteRequest


@handles(OffsetDeleteRequest)
def offset_delete(broker: Broker, context: RequestContext, request: OffsetDeleteRequest) -> Any:
    return broker.groups.offset_delete(request, context)
