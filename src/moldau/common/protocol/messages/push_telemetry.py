"""PushTelemetry (key 72, version 0): a client sends its metrics (KIP-714)."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bool,
    Bytes,
    Int8,
    Int16,
    Int32,
    Message,
    Uuid,
    message,
    response_to,
)


@message(key=72, versions=(0, 0), flexible_from=0)
class PushTelemetryRequest(Message):
    """Metrics in OpenTelemetry form."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


@response_to(PushTelemetryRequest)
class PushTelemetryResponse(Message):
    """Whether they were accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
