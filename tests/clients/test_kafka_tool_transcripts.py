"""Kafka's command lines served by Moldau print what Kafka's own tools print (tool_transcripts.py).

Each file is replayed against a broker of its own, in this process. The rows of LIVE are run by both, Kafka's
tools and ours, where Java is there: a transcript that was recorded wrongly would show.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tool_transcripts import FOLDER, SETTINGS, Entry, Output, parse, prepare, replay

from bench.brokers import BrokerProcess
from moldau.cli.kafka.running import run

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
    printed = replay(expected, ours, broker.address, prepare(tmp_path))
    wrong = [
        f"--- Kafka\n{wanted.text()}+++ Moldau\n{got.text()}"
        for wanted, got in zip(expected, printed, strict=True)
        if not same(wanted, got)
    ]
    assert not wrong, "\n".join(wrong)


def same(wanted: Entry, got: Entry) -> bool:
    """Whether output, exit code and the first line of errors are Kafka's. An error of ours may go on with
    what to do about it; where a transcript has a line of ours, that must be the error.
    """
    if wanted.ours:
        return got.code == wanted.code and wanted.ours in (got.error, *got.stdout[:1])
    if wanted.code and len(wanted.stdout) == len(got.stdout):
        pairs = [*zip(wanted.stdout, got.stdout, strict=True), (wanted.error, got.error)]
        return wanted.code == got.code and all(mine.startswith(theirs) for theirs, mine in pairs)
    return (wanted.stdout, wanted.code, wanted.error) == (got.stdout, got.code, got.error)
