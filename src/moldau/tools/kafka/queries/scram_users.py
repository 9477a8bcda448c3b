"""SCRAM users for kafka-configs: --entity-type users with SCRAM-SHA-256=[iterations=8192,password=...].

Passwords are salted here, so that the broker never sees one. No password stands in an error: Kafka's tool
prints the whole entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_any
from moldau.common.credentials.scram import (
    BY_NAME,
    BY_NUMBER,
    ITERATIONS_DEFAULT,
    ITERATIONS_MIN,
    salted_password,
)
from moldau.common.protocol.messages import alter_user_scram_credentials as alter
from moldau.common.protocol.messages import describe_user_scram_credentials as describe
from moldau.tools.kafka.problems import ToolError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

SALT_BYTES = 24
_ENTRY = re.compile(r"(?:iterations=(-?[0-9]{0,9}),)?password=(.*)", re.DOTALL)
_UNKNOWN_USER = 91
"""RESOURCE_NOT_FOUND"""


def is_scram(name: str) -> bool:
    """Whether a name in --add-config or --delete-config is a SCRAM mechanism."""
    return name in BY_NAME


def describe_scram_users(cluster: Cluster, user: str | None) -> None:
    """Print a line for the user, or (None) for each user, that has credentials."""
    users = [] if user is None else [describe.UserName(name=user)]
    answer = ask_any(cluster, describe.DescribeUserScramCredentialsRequest(users=users))
    check(answer.error_code, answer.error_message)
    for row in answer.results:
        if row.error_code == _UNKNOWN_USER:
            continue
        check(row.error_code, row.error_message)
        shown = ", ".join(
            f"{BY_NUMBER[info.mechanism].name}=iterations={info.iterations}"
            for info in row.credential_infos
            if info.mechanism in BY_NUMBER
        )
        print(f"SCRAM credential configs for user-principal '{row.user}' are {shown}")


def alter_scram_user(cluster: Cluster, user: str, settings: Mapping[str, str | None]) -> None:
    """Set the user's credentials by mechanism, or (None) remove them. ToolError, KafkaProblem."""
    deletions, upsertions = [], []
    for name, text in settings.items():
        if text is None:
            deletions.append(alter.ScramCredentialDeletion(name=user, mechanism=BY_NAME[name].number))
        else:
            upsertions.append(_upsertion(user, name, text))
    request = alter.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    for row in ask_any(cluster, request).results:
        check(row.error_code, row.error_message)
    print(f"Completed updating config for user {user}.")


def _upsertion(user: str, name: str, text: str) -> alter.ScramCredentialUpsertion:
    mechanism = BY_NAME[name]
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise ToolError(f"Invalid credential property {name}: write {name}=[iterations=8192,password=...]")
    asked = match[1]
    iterations = ITERATIONS_DEFAULT if asked in (None, "", "-", "-1") else int(asked)
    if iterations < ITERATIONS_MIN:
        raise ToolError(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {name}"
        )
    if not match[2]:
        raise ToolError(f"the password of {name} is empty")
    salt = os.urandom(SALT_BYTES)
    return alter.ScramCredentialUpsertion(
        name=user,
        mechanism=mechanism.number,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, match[2], salt, min(iterations, 1_000_000)),
    )
