"""What is left out, empty or misspelt on a command line never deletes more: the command ends before a broker
or a registry is asked."""

import pytest

from moldau.tools.app import run as run_moldau
from moldau.tools.kafka.problems import CommandLineError
from moldau.tools.kafka.queries.group_resets import explicit_partitions
from moldau.tools.kafka.running import run

NOBODY = "127.0.0.1:1"
"""Nothing listens there: a command that asked would say that no broker answers."""
SERVER = ["--bootstrap-server", NOBODY]


@pytest.mark.parametrize(
    ("tool", "words", "sentence"),
    [
        ("kafka-acls", ["--remove", "--topic", "t", "--operation", "Read", "--force"], "needs a principal"),
        ("kafka-acls", ["--remove", "--topic", "t", "--producer", "--force"], "needs a principal"),
        ("kafka-acls", ["--remove", "--topic", "t", "--deny-host", "h", "--force"], "needs a principal"),
        (
            "kafka-acls",
            ["--remove", "--topic", "", "--resource-pattern-type", "MATCH", "--force"],
            "--topic is empty",
        ),
        ("kafka-acls", ["--remove", "--force"], "at least one resource"),
        ("kafka-acls", ["--remove", "--topic", "t", "--force=false"], "takes no value"),
        ("kafka-topics", ["--delete"], "[topic]"),
        ("kafka-topics", ["--delete", "--topik", "t"], "not a recognized option"),
        ("kafka-topics", ["--delete", "--topic", "t", "--if-exists=false"], "takes no value"),
        ("kafka-consumer-groups", ["--delete"], "group"),
        ("kafka-consumer-groups", ["--delete-offsets", "--group", "g"], "topic"),
        (
            "kafka-consumer-groups",
            ["--reset-offsets", "--group", "g", "--all-topics", "--to-earliest", "--execute=false"],
            "takes no value",
        ),
        (
            "kafka-configs",
            ["--alter", "--entity-type", "users", "--entity-name", "", "--delete-config", "SCRAM-SHA-256"],
            "entity name is empty",
        ),
        (
            "kafka-configs",
            [
                "--alter",
                "--entity-type",
                "clients",
                "--entity-name",
                "",
                "--delete-config",
                "consumer_byte_rate",
            ],
            "entity name is empty",
        ),
        (
            "kafka-configs",
            ["--alter", "--broker", "", "--delete-config", "log.retention.ms"],
            "name is empty",
        ),
        ("kafka-configs", ["--alter", "--entity-type", "brokers", "--delete-config", "x"], "entity"),
        ("kafka-delete-records", [], "offset-json-file"),
        ("kafka-delegation-tokens", ["--expire", "--command-config", "f"], "hmac"),
    ],
)
def test_kafkas_tools(tool: str, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{tool}.sh", [*SERVER, *words]) != 0
    told = capsys.readouterr()
    assert sentence in told.out + told.err
    assert NOBODY not in told.err.replace(" ".join(SERVER), "")


@pytest.mark.parametrize("word", ["t:", ":", "t:0,", "t:,1", "t:a"])
def test_an_empty_list_of_partitions_is_not_all_of_them(word: str) -> None:
    with pytest.raises(CommandLineError):
        explicit_partitions(word)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["schemas", "delete", "orders", "--version", ""], "--version is empty"),
        (["schemas", "delete", ""], "subject"),
        (["schemas", "delete", "orders", "--versions", "3"], "No such option"),
        (["tokens", "remove", "aGVsbG8=", "--after", ""], "--after is empty"),
        (["acls", "remove", "--all"], "nothing to remove"),
        (["acls", "remove", "--all", "--topic", ""], "a name is empty"),
        (["acls", "remove", "--all", "--principal", ""], "a name is empty"),
        (["acls", "remove", "--topic", "t", "--operation", "read"], "whom is it about"),
        (["acls", "remove", "--all", "--topic", "t", "--operation", "read"], "--all removes whatever"),
        (["quotas", "remove"], "say whose quota"),
        (["quotas", "remove", "--user", ""], "--user needs a name"),
        (["quotas", "remove", "--user", "a", "produce_rate"], "is no quota"),
        (["groups", "reset-offsets", "g", "--to-earliest", "--execute"], "name the partitions"),
        (["groups", "reset-offsets", "--topic", "t", "--to-earliest", "--execute"], "name the groups"),
        (["groups", "delete"], "Missing argument"),
        (["groups", "delete-offsets", "g"], "Missing option"),
        (["topics", "delete"], "Missing argument"),
        (["topics", "trim", "t"], "Missing option"),
        (["topics", "trim", "t", "--before", ""], "names no offset or moment"),
        (["topics", "trim", "t", "--before", "@"], "names no offset or moment"),
        (["topics", "trim", "t", "--before", ":9"], "names no offset or moment"),
        (["topics", "trim", "t", "--before", "@2026-01-01:2026-02-01"], "is a range"),
        (["topics", "alter", "t", "--delete-config", ""], "--delete-config is empty"),
        (["configs", "alter", "topic", "", "--delete", "retention.ms"], "the name is empty"),
        (["configs", "alter", "group", "", "--set", "consumer.session.timeout.ms=1"], "the name is empty"),
        (["configs", "alter", "broker", "", "--delete", "log.retention.ms"], "the name is empty"),
        (["configs", "alter", "topic", "t", "--delete", ""], "--delete is empty"),
        (["groups", "reset-offsets", "", "--all-topics", "--to-earliest", "--execute"], "name is empty"),
        (["cluster", "purge", "--yes", "--data", ""], "name is empty"),
        (["streams", "reset", "app", "--yes", "--checkpoints", ""], "--checkpoints is empty"),
        (["users", "remove"], "Missing argument"),
        (["users", "remove", "a", "--mechanisms", "SCRAM-SHA-256"], "No such option"),
    ],
)
def test_moldaus_commands(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_moldau(words) != 0
    told = capsys.readouterr()
    assert sentence in " ".join((told.out + told.err).split())
