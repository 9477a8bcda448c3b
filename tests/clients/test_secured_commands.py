"""What docs/security.md tells a newcomer to type, typed: certificates, a broker, rights, records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client_model import eventually

from moldau.testing.ports import reserve_port

TIMEOUT_S = 120
Moldau = Callable[..., str]
PAGE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture
def moldau(tmp_path: Path) -> Moldau:
    """`moldau(words, stdin=..., code=...)`: what a command prints, in a folder of its own."""

    def run(words: str, *, stdin: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "moldau", *words.split()],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "MOLDAU_CONTACT_SECONDS": "60", "COLUMNS": "120"},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def bench(moldau: Moldau, tmp_path: Path) -> Iterator[str]:
    """The broker that the page starts, on ports of its own: the address of its TLS listener."""
    moldau("security certificates --user admin --user alice")
    plain, tls = reserve_port(), reserve_port()
    settings = tmp_path / "moldau-certificates" / "broker.properties"
    text = settings.read_text().replace(":9092", f":{plain.number}").replace(":9093", f":{tls.number}")
    settings.write_text(text)
    words = [word.replace('"', "") for word in _serve_words()]
    with (tmp_path / "broker.out").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words, "--http", "127.0.0.1:0"],
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        said = tmp_path / "broker.out"
        eventually(lambda: "is ready" in said.read_text() or process.poll() is not None, TIMEOUT_S)
        assert process.poll() is None, said.read_text()
        yield f"localhost:{tls.number}"
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
        plain.release()
        tls.release()


def _serve_words() -> list[str]:
    """The page's own command, whose lines end in a backslash."""
    found = re.search(r"^moldau serve (?:.*\\\n)*.*$", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    return found[0].replace("\\\n", " ").split()


def test_a_newcomers_path(moldau: Moldau, bench: str) -> None:
    admin = f"-b {bench} --command-config moldau-certificates/admin.properties"
    alice = f"-b {bench} --command-config moldau-certificates/alice.properties"
    moldau(f"topics create orders {admin}")
    said = moldau(f"produce orders {alice}", stdin="hello\n", code=1)
    assert "authoriz" in said.lower()
    assert "may not" in moldau(
        f"acls explain --principal alice --operation write --topic orders {admin}", code=1
    )
    moldau(f"acls add --principal alice --producer --topic orders {admin}")
    moldau(f"acls add --principal alice --operation read --topic orders {admin}")
    assert "may" in moldau(f"acls explain --principal alice --operation write --topic orders {admin}")
    eventually(lambda: "sent 1 record" in moldau(f"produce orders {alice}", stdin="hello\n"))
    # Without a group: no right to any group is needed.
    assert "hello" in moldau(f"consume orders -e {alice}")
    assert "User:alice" in moldau(f"acls list {admin}")
    moldau(f"quotas add --user alice --producer-byte-rate 1000000 {admin}")
    assert "alice" in moldau(f"quotas list {admin}")
    for words in ("acls list", "users list", "users remove bob", "quotas list"):
        assert "log in as a super user" in moldau(f"{words} {alice}", code=1)


def test_a_certificate_that_the_broker_does_not_accept_is_told(
    moldau: Moldau, bench: str, tmp_path: Path
) -> None:
    moldau("security certificates others --user alice")
    own, others = tmp_path / "moldau-certificates", tmp_path / "others"
    text = (own / "alice.properties").read_text()
    (tmp_path / "other.properties").write_text(text.replace(f"{own}/alice.pem", f"{others}/alice.pem"))
    without = "".join(line for line in text.splitlines(keepends=True) if "keystore" not in line)
    (tmp_path / "without.properties").write_text(without)
    said = moldau(f"topics list -b {bench} --command-config other.properties", code=1)
    assert "does not accept the client's certificate (unknown ca" in said
    said = moldau(f"topics list -b {bench} --command-config without.properties", code=1)
    assert "it wants a client certificate" in said
    said = moldau(f"doctor -b {bench} --command-config other.properties", code=1)
    assert "does not accept the client's certificate" in said
    said = moldau(f"topics list -b {bench}", code=1)
    assert "speaks TLS" in said
    assert "security.protocol=ssl" in said
    assert "moldau doctor" in said


def test_a_missing_right_is_named_and_the_topic_not_said_to_be_missing(moldau: Moldau, bench: str) -> None:
    admin = f"-b {bench} --command-config moldau-certificates/admin.properties"
    alice = f"-b {bench} --command-config moldau-certificates/alice.properties"
    moldau(f"topics create secret {admin}")
    for words in (
        "topics describe secret",
        "topics alter secret -p 3",
        "topics delete secret",
        "topics trim secret --before end",
        "topics reassign secret --brokers 1",
        "topics elect secret",
        "consume secret -e",
        "produce secret",
        "groups delete-offsets g --topic secret",
        "transactions describe-producers --topic secret --partition 0",
        "perf latency secret",
    ):
        said = moldau(f"{words} {alice}", stdin="x\n", code=1)
        assert "TOPIC_AUTHORIZATION_FAILED" in said, (words, said)
        assert "there is no topic" not in said, (words, said)
        assert "Traceback" not in said, (words, said)
