"""`moldau acls` and our kafka-acls against a secured broker: what they add holds, what they explain is so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from secured_fixtures import SecuredBroker

from moldau.tools.app import run as run_moldau
from moldau.tools.kafka.running import run as run_kafka

pytestmark = pytest.mark.xdist_group("secured")


class Commands:
    """Both command lines as a user of the broker."""

    def __init__(self, broker: SecuredBroker, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._address = broker.address("SASL_PLAINTEXT")
        self._broker = broker
        self._folder = folder
        self._capsys = capsys

    def _connection(self, user: str) -> list[str]:
        path = self._folder / f"{user}.properties"
        login = self._broker.login("SASL_PLAINTEXT", user).java()
        path.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
        return ["--bootstrap-server", self._address, "--command-config", str(path)]

    def moldau(self, *words: str, user: str = "admin", code: int = 0) -> str:
        assert run_moldau(["acls", *words, *self._connection(user)]) == code
        said = self._capsys.readouterr()
        return said.out or said.err

    def doctor(self, *words: str, user: str) -> dict[str, dict[str, str]]:
        """The findings by check, and whether there was a problem."""
        run_moldau(["doctor", *words, "--json", "--read-only", *self._connection(user)])
        findings = json.loads(self._capsys.readouterr().out)["findings"]
        return {one["check"]: one for one in findings}

    def kafka(self, *words: str, user: str = "admin", code: int = 0) -> str:
        assert run_kafka("kafka-acls.sh", [*words, *self._connection(user)]) == code
        return self._capsys.readouterr().out


@pytest.fixture
def commands(secured_broker: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(secured_broker, tmp_path, capsys)


def test_rights_are_added_explained_seen_by_both_tools_and_removed(
    commands: Commands, secured_broker: SecuredBroker
) -> None:
    topic = secured_broker.create_topic("acls-command")
    question = ("explain", "-p", "alice", "-o", "write", "-t", topic)
    assert "there is no ACL for it" in commands.moldau(*question, code=1)
    assert f"added: Allow User:alice WRITE on TOPIC:LITERAL:{topic} from *" in commands.moldau(
        "add", "-p", "alice", "--producer", "-t", topic
    )
    assert "an ACL allows it" in commands.moldau(*question)
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in commands.kafka(
        "--list", "--topic", topic
    )
    commands.kafka("--add", "--deny-principal", "User:alice", "--operation", "Write", "--topic", topic)
    assert "outweighs" in commands.moldau(*question, code=1)
    rows = json.loads(commands.moldau("list", "-t", topic, "--json"))
    assert sorted((row["permission"], row["operation"]) for row in rows) == [
        ("ALLOW", "CREATE"),
        ("ALLOW", "DESCRIBE"),
        ("ALLOW", "WRITE"),
        ("DENY", "WRITE"),
    ]
    assert commands.moldau("remove", "--all", "-t", topic).count("removed: ") == len(rows)
    assert "nothing was removed" in commands.moldau("remove", "-p", "alice", "-o", "write", "-t", topic)
    assert commands.kafka("--list", "--topic", topic) == ""


def test_a_user_without_rights_is_told_what_to_do(commands: Commands) -> None:
    assert "log in as a super user" in commands.moldau("list", user="alice", code=1)
    assert "ClusterAuthorizationException: Cluster authorization failed." in commands.kafka(
        "--list", user="alice", code=1
    )


def test_super_users_need_no_acl(commands: Commands) -> None:
    assert "super.users" in commands.moldau("explain", "-p", "admin", "-o", "alter", "--cluster")


def test_the_doctor_tells_missing_rights_from_a_broken_cluster(commands: Commands) -> None:
    of_any = commands.doctor(user="alice")["coordinator"]
    assert (of_any["grade"], "name one with --group" in of_any["message"]) == ("skipped", True), of_any
    of_one = commands.doctor("--group", "theirs", user="alice")["coordinator"]
    assert (of_one["grade"], "may not describe the group theirs" in of_one["message"]) == ("failed", True)
    commands.moldau("add", "-p", "alice", "-o", "describe", "-g", "theirs")
    assert commands.doctor("--group", "theirs", user="alice")["coordinator"]["grade"] == "ok"
    commands.moldau("remove", "-p", "alice", "-o", "describe", "-g", "theirs")
