"""GetTelemetrySubscriptions (key 71, version 0): which of its metrics a client should send (KIP-714)."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Uuid,
    array,
    message,
    response_to,
)


@message(key=71, versions=(0, 0), flexible_from=0)
class GetTelemetrySubscriptionsRequest(Message):
    """The client's instance id, zero the first time."""

    client_instance_id: Uuid = ZERO_UUID


@response_to(GetTelemetrySubscriptionsRequest)
class GetTelemetrySubscriptionsResponse(Message):
    """The instance id and what to send how often."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = array()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[String] = array()
