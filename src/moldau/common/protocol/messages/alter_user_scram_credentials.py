"""AlterUserScramCredentials (key 51, version 0): set or delete users' SCRAM credentials."""

from __future__ import annotations

from moldau.common.protocol.declare import (
    Bytes,
    Int8,
    Int16,
    Int32,
    Message,
    NullableString,
    String,
    Struct,
    array,
    message,
    response_to,
)


@message(key=51, versions=(0, 0), flexible_from=0)
class AlterUserScramCredentialsRequest(Message):
    """Deletions and upsertions; passwords arrive salted."""

    deletions: list[ScramCredentialDeletion] = array()
    upsertions: list[ScramCredentialUpsertion] = array()


class ScramCredentialDeletion(Struct):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@response_to(AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse(Message):
    """An error code for each user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = array()


class AlterUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""
