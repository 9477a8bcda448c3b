"""AlterMirrors (key 21000, version 0): make, change and remove links to other clusters, and say what becomes
of their topics here. Moldau's own.

    create    a link with these settings, for the topics that they name; may be repeated
    alter     other settings for a link
    delete    named copies here with their records; without topics, the link
    pause, resume, failover, reverse
              these topics, or (null) all of the link's
"""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bool,
    Int16,
    Message,
    NullableString,
    String,
    Struct,
    array,
    field,
    message,
    response_to,
)


@message(key=21000, versions=(0, 0), flexible_from=0)
class AlterMirrorsRequest(Message):
    """What to do with a link, or with topics of it."""

    action: String = ""
    link: String = ""
    settings: list[MirrorSettingData] = array()
    topics: list[String] | None = field(nullable_since=0)
    adopt: Bool = False
    validate_only: Bool = False


class MirrorSettingData(Struct):
    name: String = ""
    value: NullableString = field(nullable_since=0)


@response_to(AlterMirrorsRequest)
class AlterMirrorsResponse(Message):
    """What became of the whole, and of each topic."""

    error_code: Int16 = 0
    error_message: NullableString = field(nullable_since=0)
    topics: list[AlteredMirror] = array()


class AlteredMirror(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: NullableString = field(nullable_since=0)
