"""moldau users and kafka-configs against a live broker: users, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from uuid import uuid4

import pytest

pytestmark = pytest.mark.client


@pytest.fixture
def user() -> str:
    return f"user-{uuid4().hex[:8]}"


def run(*words: str, data: str = "", code: int = 0) -> str:
    """What a command prints, on either stream."""
    finished = subprocess.run(
        [sys.executable, "-m", *words],
        input=data,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    assert finished.returncode == code, finished.stdout
    return finished.stdout


def test_a_users_life(bootstrap: str, user: str) -> None:
    at = ("-b", bootstrap)
    assert "logs in with SCRAM-SHA-256 or SCRAM-SHA-512" in run(
        "moldau", "users", "add", user, "--password-file", "-", *at, data="secret\n"
    )
    listed = json.loads(run("moldau", "users", "list", user, "--json", *at))
    assert [(row["mechanism"], row["iterations"]) for row in listed] == [
        ("SCRAM-SHA-256", 4096),
        ("SCRAM-SHA-512", 4096),
    ]
    configs = (
        "moldau.tools.kafka",
        "kafka-configs",
        "--bootstrap-server",
        bootstrap,
        "--entity-type",
        "users",
    )
    changed = run(
        *configs,
        "--entity-name",
        user,
        "--alter",
        "--add-config",
        "SCRAM-SHA-512=[iterations=8192,password=other]",
    )
    assert changed == f"Completed updating config for user {user}.\n"
    assert (
        f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=4096, "
        "SCRAM-SHA-512=iterations=8192\n"
    ) in run(*configs, "--describe", "--entity-name", user)
    assert run("moldau", "users", "remove", user, "-m", "SCRAM-SHA-256", *at).startswith("Removed SCRAM")
    assert run("moldau", "users", "remove", user, *at) == f"Removed user {user}.\n"
    assert "there is no user" in run("moldau", "users", "list", user, *at, code=1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--user", "x", "--add-config", "SCRAM-SHA-256=[pass=s3cret]"), "Invalid credential property"),
        (("--user", "x", "--add-config", "SCRAM-SHA-256=[password=]"), "is empty"),
        (("--user", "x", "--add-config", "SCRAM-SHA-256=[iterations=7,password=s3cret]"), "less than the"),
        (("--user", "x", "--add-config", "SCRAM-SHA-256=[iterations=20000,password=s3cret]"), "Too many"),
        (("--user", "x", "--add-config", "SCRAM-SHA-1=[password=s3cret]"), "Unexpected config names"),
        (("--user-defaults", "--add-config", "SCRAM-SHA-256=[password=s3cret]"), "is not allowed with"),
        (("--client", "x", "--add-config", "SCRAM-SHA-256=[password=s3cret]"), "Only quota configs"),
        (
            ("--user", "x", "--add-config", "SCRAM-SHA-256=[password=s3cret],consumer_byte_rate=5"),
            "Cannot alter both",
        ),
        (("--user", "nobody", "--delete-config", "SCRAM-SHA-256"), "does not exist"),
    ],
)
def test_what_kafka_configs_refuses(bootstrap: str, words: tuple[str, ...], sentence: str) -> None:
    printed = run(
        "moldau.tools.kafka", "kafka-configs", "--bootstrap-server", bootstrap, "--alter", *words, code=1
    )
    assert sentence in printed
    assert "s3cret" not in printed
