"""UnregisterBroker (key 64, version 0): remove a broker that is gone for good from the metadata."""

from __future__ import annotations

from moldau.common.protocol.declare import Int16, Int32, Message, NullableString, message, response_to


@message(key=64, versions=(0, 0), flexible_from=0)
class UnregisterBrokerRequest(Message):
    """The broker to remove."""

    broker_id: Int32 = 0


@response_to(UnregisterBrokerRequest)
class UnregisterBrokerResponse(Message):
    """Whether it was removed."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
