"""What the shell offers after Tab: names of topics and groups, quickly, and never a word beside them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from moldau.testing import Broker
from moldau.tools.app import COMMANDS, build
from moldau.tools.main import main

Offer = Callable[..., list[str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1) as running:
        for name in ("flights", "flown", "orders"):
            running.create_topic(name)
        from confluent_kafka import Consumer

        reader = Consumer({"bootstrap.servers": running.bootstrap_servers, "group.id": "billing"})
        from confluent_kafka import TopicPartition

        reader.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        reader.close()
        yield running


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Offer:
    def offered(*words: str, servers: str = "") -> list[str]:
        """What bash is offered where the last of `words` is being typed."""
        monkeypatch.setenv("_MOLDAU_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["moldau", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        if servers:
            monkeypatch.setenv("MOLDAU_BOOTSTRAP", servers)
        assert main([]) == 0
        said = capfd.readouterr()
        # Completion has no client of librdkafka's: one that an earlier test has left behind may speak here.
        assert [
            line for line in said.err.splitlines() if "|rdkafka#" not in line and "-writer#" not in line
        ] == []
        return said.out.split()

    return offered


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["topics", "describe", "fl"], ["flights", "flown"]),
        (["topics", "delete", ""], ["flights", "flown", "orders"]),
        (["topics", "delete", "__c"], ["__consumer_offsets"]),
        (["topics", "trim", "o"], ["orders"]),
        (["produce", "or"], ["orders"]),
        (["consume", "flights", "o"], ["orders"]),
        (["consume", "orders", "-g", "b"], ["billing"]),
        (["groups", "describe", ""], ["billing"]),
        (["groups", "delete", "b"], ["billing"]),
        (["groups", "delete-offsets", "billing", "--topic", "o"], ["orders"]),
        (["groups", "reset-offsets", "b"], ["billing"]),
        (["groups", "reset-offsets", "billing", "--topic", "orders:"], []),
        (["transactions", "find-hanging", "--topic", "o"], ["orders"]),
        (["configs", "describe", "t"], ["topic"]),
        (["configs", "describe", "topic", "o"], ["orders"]),
        (["configs", "describe", "group", "b"], ["billing"]),
        (["configs", "alter", "broker", "d"], ["default"]),
        (["configs", "describe", "nonsense", ""], []),
    ],
)
def test_names_are_offered(words: list[str], expected: list[str], broker: Broker, offer: Offer) -> None:
    assert offer(*words, servers=broker.bootstrap_servers) == expected


def test_the_broker_is_that_of_the_line(broker: Broker, offer: Offer) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # connections are refused
        elsewhere = f"127.0.0.1:{nobody.getsockname()[1]}"
        words = ["topics", "describe", "-b", broker.bootstrap_servers, "fl"]
        assert offer(*words, servers=elsewhere) == ["flights", "flown"]


@pytest.mark.parametrize("servers", ["", "not an address:x", "nowhere.invalid:9092"])
@pytest.mark.parametrize("words", [["topics", "describe", ""], ["groups", "describe", ""]])
def test_where_no_broker_answers_nothing_is_offered(words: list[str], servers: str, offer: Offer) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert offer(*words, servers=servers or f"127.0.0.1:{nobody.getsockname()[1]}") == []


def test_who_accepts_and_never_answers_is_given_up(offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.tools.shared.completion.ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert offer("topics", "describe", "", servers=f"127.0.0.1:{mute.getsockname()[1]}") == []
        assert offer("groups", "describe", "", servers=f"127.0.0.1:{mute.getsockname()[1]}") == []


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield path, command
    for name, each in (inner or {}).items():
        yield from leaves(each, (*path, name))


def test_every_parameter_that_names_a_topic_or_a_group_is_completed() -> None:
    bare = [
        f"{' '.join(path)}: {each.name}"
        for path, command in leaves(typer.main.get_command(build(list(COMMANDS))))
        for each in command.params
        if each.name in ("topic", "topics", "names", "patterns", "group", "groups")
        and not getattr(each, "is_flag", False)
        and each._custom_shell_complete is None
    ]
    assert bare == ["topics create: topics", "mirror create: topics"]  # of which none exists yet
