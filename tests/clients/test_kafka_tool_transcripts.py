"""Kafka's command lines served by Moldau print what Kafka's own tools print (tool_transcripts.py).

Each file is replayed against a broker of its own, in this process. Groups with members are described by both,
Kafka's tool and ours, at the same time.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from client_confluent import create_topic
from client_model import eventually
from confluent_kafka import Consumer, TopicPartition
from tool_transcripts import FOLDER, SETTINGS, Entry, KafkasTools, Output, parse, prepare, replay

from bench import apache_kafka
from bench.brokers import BrokerProcess
from moldau.tools.kafka.running import run

reason = apache_kafka.available()
FILES = sorted(path.stem for path in FOLDER.glob("*.txt"))


class Stream(io.TextIOWrapper):
    """A text stream over bytes in memory."""

    def __init__(self, content: bytes = b"") -> None:
        super().__init__(io.BytesIO(content), "utf-8", "surrogateescape", newline="\n", write_through=True)

    def text(self) -> str:
        """What was written."""
        self.flush()
        content = self.buffer
        assert isinstance(content, io.BytesIO)
        return content.getvalue().decode(errors="replace")


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str], str], Output]:
    """Runs a command line of ours in this process."""

    def once(words: list[str], stdin: str) -> Output:
        streams = {"stdin": Stream(stdin.encode()), "stdout": Stream(), "stderr": Stream()}
        with monkeypatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            code = run(words[0], words[1:])
        return Output(code, streams["stdout"].text(), streams["stderr"].text())

    return once


@pytest.mark.parametrize("name", FILES)
def test_transcript(
    name: str,
    ours: Callable[[list[str], str], Output],
    private_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
) -> None:
    broker = private_broker(**{key.replace(".", "_"): value for key, value in SETTINGS.items()})
    expected = parse((FOLDER / f"{name}.txt").read_text())
    printed = [
        _without_own_settings(each) for each in replay(expected, ours, broker.address, prepare(tmp_path))
    ]
    wrong = [
        f"--- Kafka\n{wanted.text()}+++ Moldau\n{got.text()}"
        for wanted, got in zip(expected, printed, strict=True)
        if not same(wanted, got)
    ]
    assert not wrong, "\n".join(wrong)


def _without_own_settings(entry: Entry) -> Entry:
    """Moldau's own settings, which Kafka does not have, are listed beside Kafka's."""
    kept = [line for line in entry.stdout if not line.lstrip().startswith("moldau.")]
    return replace(entry, stdout=kept)


def same(wanted: Entry, got: Entry) -> bool:
    """Whether output, exit code and the first line of errors are Kafka's. An error of ours may go on with
    what to do about it; where a transcript has a line of ours, that must be the error.
    """
    if wanted.ours:
        return got.code == wanted.code and wanted.ours in (got.error, *got.stdout)
    if wanted.code and len(wanted.stdout) == len(got.stdout):
        pairs = [*zip(wanted.stdout, got.stdout, strict=True), (wanted.error, got.error)]
        return wanted.code == got.code and all(
            mine.startswith(theirs) or words(mine) == words(theirs) for theirs, mine in pairs
        )
    if " --list" in wanted.line:  # in no order, as the brokers answer
        wanted, got = (replace(each, stdout=sorted(each.stdout)) for each in (wanted, got))
    return (wanted.stdout, wanted.code, wanted.error) == (got.stdout, got.code, got.error)


def words(line: str) -> list[str]:
    """The words of a line in any order: Kafka lists options as they lie in a set."""
    return sorted(re.split(r"[\s,\[\]]+", line))


@pytest.mark.skipif(reason is not None, reason=str(reason))
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_with_members_are_described_as_kafka_does(
    protocol: str, ours: Callable[[list[str], str], Output], bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 3)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "client.id": "member",
        "group.protocol": protocol,
    }
    members = [Consumer(settings | {"group.instance.id": f"m{index}"}) for index in range(2)]
    try:
        for each in members:
            each.subscribe([topic])
        eventually(
            lambda: [each.poll(0.1) for each in members] and all(each.assignment() for each in members),
            timeout_s=60,
        )
        for each in members:
            each.commit(
                offsets=[TopicPartition(at.topic, at.partition, 0) for at in each.assignment()],
                asynchronous=False,
            )
        described = f"kafka-consumer-groups {{server}} --describe --group {topic}"
        lines = [
            described,
            f"{described} --members",
            f"{described} --members --verbose",
            f"{described} --verbose",
        ]
        lines += [f"{described} --state", f"{described} --state --verbose"]
        reset = f"--group {topic} --reset-offsets --to-earliest --all-topics --execute"
        lines += [f"kafka-consumer-groups {{server}} {each}" for each in (reset, f"--delete --group {topic}")]
        entries = [Entry(line) for line in lines]
        with KafkasTools() as kafkas:
            wanted = replay(entries, kafkas, bootstrap, tmp_path)
        got = replay(entries, ours, bootstrap, tmp_path)
    finally:
        for each in members:
            each.close()
    assert [rows(each) for each in got] == [rows(each) for each in wanted]


def rows(entry: Entry) -> tuple[list[str], int]:
    """Output lines in any order (members come as they lie in a set), and the exit code."""
    return sorted(entry.stdout), entry.code
