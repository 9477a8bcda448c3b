"""kafka-storage format --add-scram: users who can log in when the cluster starts for the first time.

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=["name=alice","iterations=8192","salt=base64","saltedpassword=base64"]

Errors are in Kafka's words, without the values that Kafka's repeat. Not here: the file that they are written
into (tools/commands/serve/first_users.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from moldau.common.credentials.scram import (
    BY_NAME,
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    ScramSyntaxError,
    base64_bytes,
    credential_of,
    salted_password,
)
from moldau.common.credentials.scram_credential import ScramCredential
from moldau.tools.kafka.problems import ToolError

_SALT_BYTES = 24

ScramUser = tuple[str, str, ScramCredential]
"""A user, the mechanism and its credential."""


def scram_users(arguments: Sequence[str]) -> list[ScramUser]:
    """The users of --add-scram. ToolError."""
    return [_credential(argument.strip()) for argument in arguments]


def _credential(argument: str) -> ScramUser:
    name, equals, text = argument.partition("=")
    if not equals:
        raise ToolError(
            "Failed to find equals sign in SCRAM argument: write SCRAM-SHA-256=[name=...,password=...]"
        )
    mechanism = BY_NAME.get(name)
    if mechanism is None:
        raise ToolError(f"The add-scram mechanism {name} is not supported.")
    if not text.startswith("["):
        raise ToolError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise ToolError("Expected configuration string to end with ]")
    values = dict(_component(each) for each in text[1:-1].split(","))
    user = values.pop("name", None)
    if user is None:
        raise ToolError("You must supply 'name' to add-scram")
    if not user:
        raise ToolError("the 'name' for add-scram is empty")
    salt_text = values.pop("salt", None)
    salt = os.urandom(_SALT_BYTES) if salt_text is None else _decoded("salt", salt_text)
    iterations = _iterations(mechanism, values.pop("iterations", None))
    password, salted_text = values.pop("password", None), values.pop("saltedpassword", None)
    if password is None and salted_text is None:
        raise ToolError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if values:
        raise ToolError(f"Unknown SCRAM configurations: {', '.join(sorted(values))}")
    if password is not None:
        salted = salted_password(mechanism, password, salt, iterations)
    elif salt_text is None:
        raise ToolError("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded("saltedPassword", salted_text or "")
    return user, mechanism.name, credential_of(mechanism, salted, salt, iterations)


def _component(text: str) -> tuple[str, str]:
    """One `name=value`; Kafka's guide puts quotes around the pair, its parser around the value."""
    if len(text) >= 2 and text.startswith('"') and text.endswith('"'):
        text = text[1:-1]
    name, equals, value = text.partition("=")
    if not equals:
        raise ToolError("No equals sign found in a SCRAM component")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return name.strip(), value


def _decoded(what: str, text: str) -> bytes:
    try:
        data = base64_bytes(text)
    except ScramSyntaxError:
        data = b""
    if not data:
        raise ToolError(f"Failed to decode given {what}")
    return data


def _iterations(mechanism: ScramMechanism, text: str | None) -> int:
    if text is None:
        return ITERATIONS_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ToolError(f"Failed to parse iterations count: {text}")
    if int(text) < ITERATIONS_MIN:
        raise ToolError(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {mechanism.name}"
        )
    if int(text) > ITERATIONS_MAX:
        raise ToolError(
            f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {mechanism.name}"
        )
    return int(text)
