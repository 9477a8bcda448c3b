"""SaslHandshake (key 17, versions 0-1): a client names the SASL mechanism that it wants to use.

v1   tokens follow in SaslAuthenticate requests; after version 0 they follow bare, only with a length
"""

from __future__ import annotations

from moldau.common.protocol.declare import Int16, Message, String, array, message, response_to


@message(key=17, versions=(0, 1), flexible_from=None)
class SaslHandshakeRequest(Message):
    """The mechanism."""

    mechanism: String = ""


@response_to(SaslHandshakeRequest)
class SaslHandshakeResponse(Message):
    """Whether it is enabled, and which ones are."""

    error_code: Int16 = 0
    mechanisms: list[String] = array()
