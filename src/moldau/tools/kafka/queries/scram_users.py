"""SCRAM users for kafka-configs: --entity-type users with SCRAM-SHA-256=[iterations=8192,password=...].

Passwords are salted here, so that the broker never sees one. No password stands in an error: Kafka's tool
prints the whole entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.client.admin.scram import ScramCredential, alter_scram_users, find_scram_users
from moldau.common.credentials.scram import BY_NAME, ITERATIONS_DEFAULT, ITERATIONS_MIN
from moldau.tools.kafka.problems import ToolError

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

SALT_BYTES = 24
_ENTRY = re.compile(r"(?:iterations=(-?[0-9]{0,9}),)?password=(.*)", re.DOTALL)


def is_scram(name: str) -> bool:
    """Whether a name in --add-config or --delete-config is a SCRAM mechanism."""
    return name in BY_NAME


def describe_scram_users(cluster: Cluster, user: str | None) -> None:
    """Print a line for the user, or (None) for each user, that has credentials."""
    for name, mechanisms in find_scram_users(cluster, None if user is None else [user]).items():
        shown = ", ".join(f"{each}=iterations={iterations}" for each, iterations in mechanisms.items())
        print(f"SCRAM credential configs for user-principal '{name}' are {shown}")


def alter_scram_user(cluster: Cluster, user: str, settings: Mapping[str, str | None]) -> None:
    """Set the user's credentials by mechanism, or (None) remove them. ToolError, KafkaProblem."""
    gone = [name for name, text in settings.items() if text is None]
    made = [_credential(name, text) for name, text in settings.items() if text is not None]
    alter_scram_users(cluster, {user: made}, {user: gone})
    print(f"Completed updating config for user {user}.")


def _credential(name: str, text: str) -> ScramCredential:
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
    return ScramCredential(name, iterations, os.urandom(SALT_BYTES), match[2])
