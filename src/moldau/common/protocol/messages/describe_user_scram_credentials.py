"""DescribeUserScramCredentials (key 50, version 0): which users have SCRAM credentials, of which
mechanisms."""

from __future__ import annotations

from moldau.common.protocol.declare import (
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


@message(key=50, versions=(0, 0), flexible_from=0)
class DescribeUserScramCredentialsRequest(Message):
    """Users asked about; null or empty means all."""

    users: list[UserName] | None = array()


class UserName(Struct):
    name: String = ""


@response_to(DescribeUserScramCredentialsRequest)
class DescribeUserScramCredentialsResponse(Message):
    """Each user's mechanisms and iterations, never the secrets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    results: list[DescribeUserScramCredentialsResult] = array()


class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""
    credential_infos: list[CredentialInfo] = array()


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0
