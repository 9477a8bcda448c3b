"""Kafka's command lines and odd input: numbers out of range, files that are something else, closed streams.

Each is answered with a sentence of the tool's, and nothing is done.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.client.cluster import parse_servers
from moldau.client.errors import OptionError
from moldau.common.core.properties import parse_properties
from moldau.tools.commands.groups.reset_plan import read_plan
from moldau.tools.commands.perf.payloads import random_letters
from moldau.tools.kafka.formats.coordinator_formatters import FORMATTERS
from moldau.tools.kafka.formats.message_formatters import formatter
from moldau.tools.kafka.formats.reassign_plans import parse_plan, parse_topics
from moldau.tools.kafka.homes.home import lay_out
from moldau.tools.kafka.java.java_times import duration_ms, moment_ms
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.options import Long, Option, Parser
from moldau.tools.kafka.lines.topic_filter import topic_pattern
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.programs import console_consumer, console_producer
from moldau.tools.kafka.programs.configs import PARSER as CONFIGS
from moldau.tools.kafka.programs.configs import _entity
from moldau.tools.kafka.programs.console_consumer import Printing
from moldau.tools.kafka.programs.console_producer import PARSER as PRODUCER
from moldau.tools.kafka.programs.console_producer import _settings
from moldau.tools.kafka.programs.delete_records import read_offsets
from moldau.tools.kafka.programs.features import parse_level
from moldau.tools.kafka.programs.leader_election import parse_places
from moldau.tools.kafka.programs.transactions import _parser
from moldau.tools.kafka.queries import reaching
from moldau.tools.shared.connection import parse_address
from moldau.tools.shared.errors import CommandError, UsageError

PARSER = Parser(
    "kafka-trial", "Tries.", [Option("small", "n", "32 bits.", int), Option("large", "n", "64 bits.", Long)]
)


@pytest.mark.parametrize("text", ["1_0", " 1", "²", "٣", "2147483648", "1e3", "0x1", ""])
def test_what_is_no_number_of_javas(text: str) -> None:
    with pytest.raises(CommandLineError, match=f"Cannot parse argument '{text}' of option small"):
        PARSER.parse([f"--small={text}"]).number("small")


def test_numbers_of_javas() -> None:
    assert PARSER.parse(["--small=-2147483648"]).number("small") == -(2**31)
    assert PARSER.parse(["--large", "+9223372036854775807"]).number("large") == 2**63 - 1
    with pytest.raises(CommandLineError, match="Cannot parse"):
        PARSER.parse(["--large", "9223372036854775808"]).number("large")


@pytest.mark.parametrize("words", [["--producer-epoch", "32768"], ["--producer-id", "9223372036854775808"]])
def test_numbers_of_subcommands(words: list[str]) -> None:
    line = ["--bootstrap-server", "h:1", "abort", "--topic", "t", "--partition", "0", *words]
    with pytest.raises(CommandLineError, match=f"could not convert '{words[1]}' to"):
        _parser().parse_args(line)


PLAN = '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]}]}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"replicas": [1]', '"replicas": "12"'),
        ('"replicas": [1]', '"replicas": ["1"]'),
        ('"replicas": [1]', '"replicas": [true]'),
        ('"replicas": [1]', '"replicas": [1.5]'),
        ('"replicas": [1]', '"replicas": [4294967296]'),
        ('"partition": 0', '"partition": 0.9'),
        ('"partition": 0', '"partition": "0"'),
        ('"topic": "t"', '"topic": null'),
        ('["any"]', '"a"'),
        ('["any"]', "[5]"),
        ('[{"topic"', '[7, {"topic"'),
    ],
)
def test_a_plan_is_taken_literally(old: str, new: str) -> None:
    assert parse_plan(PLAN).targets == {("t", 0): [1]}
    assert old in PLAN
    with pytest.raises(ToolError, match="a partition reads"):
        parse_plan(PLAN.replace(old, new))


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_offsets, '{"partitions": 5}'),
        (read_offsets, '{"partitions": [{"topic": "t", "partition": 0, "offset": true}]}'),
        (read_offsets, '{"partitions": [{"topic": "t", "partition": 0, "offset": "7"}]}'),
        (read_offsets, '{"partitions": [{"topic": "t", "partition": 0.0, "offset": 7}]}'),
        (read_offsets, '{"partitions": [{"topic": ["t"], "partition": 0, "offset": 7}]}'),
        (read_offsets, '{"partitions": [{"topic": "t", "partition": 0, "offset": 9223372036854775808}]}'),
        (read_offsets, '{"partitions": [{"topic": "t", "partition": 0}]}'),
        (read_offsets, DEEP),
        (parse_places, '{"partitions": [{"topic": "t", "partition": "0"}]}'),
        (parse_places, '{"partitions": [{"topic": "t", "partition": 4294967296}]}'),
        (parse_places, DEEP),
        (parse_plan, DEEP),
        (parse_topics, '{"topics": [{"topic": 5}]}'),
        (parse_topics, '{"topics": ["t"]}'),
    ],
)
def test_a_file_that_is_something_else(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ToolError):
        read(text)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00,1,2", b"orders,\xc2\xb2,5\n", b"orders,0,99999999999999999999\n"]
)
def test_a_file_of_offsets_that_is_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "offsets.csv"
    path.write_bytes(content)
    with pytest.raises(CommandError):
        read_plan(path, ["g"])


@pytest.mark.parametrize("text", ["1970-01-01T00:00:00.000+99:00", "0000-01-01T00:00:00.000"])
def test_a_moment_that_there_never_was(text: str) -> None:
    with pytest.raises(ToolError, match="ParseException"):
        moment_ms(text)


@pytest.mark.parametrize("text", [f"P{'9' * 400}D", "PT9223372036854776S", "P²D"])
def test_a_duration_that_is_none(text: str) -> None:
    with pytest.raises(ToolError, match="cannot be parsed to a Duration"):
        duration_ms(text)


@pytest.mark.parametrize("text", ["(", "a{99999999999999999999}", "[z-a]"])
def test_a_pattern_that_is_none(text: str) -> None:
    with pytest.raises(ToolError, match="is an invalid regex"):
        topic_pattern(text)


@pytest.mark.parametrize("text", ["f=99999", "f=x", "f=²", "f="])
def test_a_level_that_is_none(text: str) -> None:
    with pytest.raises(ToolError, match="as a short"):
        parse_level(text)


@pytest.mark.parametrize(
    "line",
    [
        "--alter --topic one --topic two --add-config a=1",
        "--describe --entity-type topics --entity-name one --entity-name two",
    ],
)
def test_settings_of_several_entities_are_refused_and_not_given_to_the_first(line: str) -> None:
    with pytest.raises(CommandLineError, match="One entity at a time"):
        _entity(CONFIGS.parse(line.split()))


class Record:
    """A record of a topic that holds something else."""

    def __init__(self, key: bytes | None, value: bytes | None) -> None:
        self._key, self._value = key, value

    def key(self) -> bytes | None:
        """The key."""
        return self._key

    def value(self) -> bytes | None:
        """The value."""
        return self._value

    def topic(self) -> str:
        """Where it lies."""
        return "t"

    def partition(self) -> int:
        """Where it lies."""
        return 0


@pytest.mark.parametrize("value", [b"", b"\0", b"\xff\xff", b"\0\4", b"\0\4garbage"])
@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\1", b"\0\2x", b"\0\1\xff\xff\xff"])
@pytest.mark.parametrize("name", sorted(FORMATTERS))
def test_a_record_that_no_coordinator_wrote(name: str, key: bytes, value: bytes) -> None:
    assert isinstance(FORMATTERS[name](Record(key, value)), bytes)


@pytest.mark.parametrize("value", [b"x", b"\xff", b""])
def test_a_value_that_is_no_uuid(value: bytes) -> None:
    form = formatter("DefaultMessageFormatter", {"value.deserializer": "x.UUIDDeserializer"})
    with pytest.raises(ToolError, match="UUID"):
        form(Record(None, value))


class Reader:
    """A consumer that notes which offsets are stored."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    def store_offsets(self, message: Any) -> None:
        """Note it."""
        self.stored.append(message)


class Pipe(io.BytesIO):
    """Standard output whose reader may go away."""

    broken = False

    def flush(self) -> None:
        """What was written is read, or never will be."""
        if self.broken:
            raise BrokenPipeError


def test_what_the_reader_of_the_output_did_not_get_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
    reader = Reader()
    printing = Printing(reader, stores=True)
    first, second, third = (Record(None, b"v") for _ in range(3))
    printing.add(first, b"1")
    printing.add(second, b"2")
    assert reader.stored == []
    printing.settle()
    assert reader.stored == [second]
    pipe.broken = True
    printing.add(third, b"3")
    with pytest.raises(BrokenPipeError):
        printing.settle()
    assert reader.stored == [second]
    pipe.broken = False


@pytest.mark.parametrize(
    ("line", "theirs", "expected"),
    [
        ("", {}, True),
        ("--request-required-acks 1", {}, False),
        ("--message-send-max-retries 0", {}, False),
        ("", {"acks": "1"}, False),
        ("", {"max.in.flight.requests.per.connection": "100"}, False),
        ("", {"compression.type": "zstd"}, True),
    ],
)
def test_the_console_producer_is_idempotent_as_javas(
    line: str, theirs: dict[str, str], expected: bool
) -> None:
    given = PRODUCER.parse(["--topic", "t", *line.split()])
    assert _settings(given, theirs)["enable_idempotence"] is expected


def test_settings_may_come_through_a_pipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"security.protocol=PLAINTEXT\n")
    os.close(writing)
    try:
        given = PRODUCER.parse(["--topic", "t", "--command-config", f"/dev/fd/{reading}"])
        for _ in range(2):
            assert reaching.client_settings(given) == {"security.protocol": "PLAINTEXT"}
    finally:
        os.close(reading)


def test_only_line_ends_end_a_line_of_properties(tmp_path: Path) -> None:
    path = tmp_path / "odd.properties"
    path.write_bytes("a=1\u20282\x0c3\r\nb=4\rc=5".encode())
    assert read_properties(str(path)) == {"a": "1\u20282\x0c3", "b": "4", "c": "5"}


@pytest.mark.parametrize("name", ["a folder", "d\u00e9p\u00f4t", "back\\slash", "it's", "tab\tbed", "#1=:"])
def test_a_home_of_any_name(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    lay_out(home)
    text = (home / "config" / "server.properties").read_text(encoding="ascii")
    assert parse_properties(text)["log.dirs"] == str(home / "data" / "kafka-logs")
    java = read_properties(str(home / "config" / "zookeeper.properties"))
    assert java["dataDir"] == str(home / "data" / "zookeeper")
    for path in (home / "config").glob("*.properties"):
        assert all(" " not in value or name in value for value in read_properties(str(path)).values()), path


def test_a_home_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="comma"):
        lay_out(tmp_path / "a,b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(CommandError, match="cannot be written"):
        lay_out(tmp_path / "file" / "kafka")


def test_a_home_whose_settings_are_no_utf8_any_more(tmp_path: Path) -> None:
    lay_out(tmp_path)
    changed = tmp_path / "config" / "server.properties"
    changed.write_bytes(b"# d\xe9p\xf4t\n")
    assert lay_out(tmp_path) == [changed]
    assert changed.read_bytes() == b"# d\xe9p\xf4t\n"


def test_random_values_take_little_memory() -> None:
    values = random_letters(5_000_000)(3)
    assert [len(each) for each in values] == [5_000_000] * 3
    assert len({id(each) for each in values}) <= 2


def test_values_come_in_turn() -> None:
    take = random_letters(1_000_000)
    once = [take(1)[0] for _ in range(8)]
    take = random_letters(1_000_000)
    assert [each for count in (3, 7, 6) for each in take(count)] == once * 2


def run(shell: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run a tool from a line of shell: "$@" is the tool."""
    tool = [sys.executable, "-P", "-m", "moldau.tools.kafka", *words]
    return subprocess.run(
        ["/bin/sh", "-c", shell, "sh", *tool], capture_output=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ('"$@" >&-', 0),
        ('"$@" <&- 2>&-', 0),
        ('"$@" <&- >&- 2>&-', 0),
        ('"$@" >/dev/full', 1),
    ],
)
def test_standard_streams_that_are_closed_or_full(shell: str, code: int) -> None:
    done = run(shell, "kafka-storage.sh", "random-uuid")
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert b"fault of Moldau" not in done.stderr
    assert done.returncode == code


def test_words_that_are_no_utf8_and_a_terminal_that_is_none() -> None:
    done = run('PYTHONIOENCODING=ascii "$@"', "kafka-leader-election", "--h\u00e9lp")
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "moldau.tools.kafka",
            "kafka-reassign-partitions",
            "--list",
            "--bootstrap-server",
            b"h\xff:1",
        ],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"fault of Moldau" not in done.stderr


def test_an_option_goes_before_what_a_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=elsewhere:9092\nacks=0\nlinger.ms=7\nisolation.level=read_uncommitted\n"
    )
    monkeypatch.setattr(reaching, "require_broker", lambda *_: None)
    used: list[dict[str, Any]] = []
    monkeypatch.setattr(console_producer, "_send", lambda settings, *_, **__: used.append(settings))
    monkeypatch.setattr(console_consumer, "_consume", lambda settings, *_: used.append(settings))
    common = ["--bootstrap-server", "here:9092", "--topic", "t", "--command-config", str(path)]
    console_producer.main([*common, "--request-required-acks", "all"])
    console_consumer.main([*common, "--isolation-level", "read_committed"])
    console_consumer.main(common)
    assert [each["bootstrap.servers"] for each in used] == ["here:9092"] * 3
    assert (used[0]["acks"], used[0]["linger.ms"]) == ("all", "7")
    assert [each["isolation.level"] for each in used[1:]] == ["read_committed", "read_uncommitted"]


def test_a_zookeeper_that_went_away_is_waited_for_no_longer_than_a_moment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("kazoo")
    from kazoo.client import KazooClient

    from moldau.tools.kafka.programs import zookeeper_shell
    from moldau.tools.kafka.queries import zookeeper_lookup

    client = KazooClient(hosts="127.0.0.1:1")  # not connected: its calls wait until it is
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zookeeper_lookup, "SECONDS", 0.05)
        for words in (["ls", "/a"], ["get", "/a"], ["set", "/a", "b"], ["deleteall", "/a"], ["create", "/a"]):
            assert zookeeper_shell.run_words(zookeeper_lookup.Timely(client), words) == 1
            assert capsys.readouterr().err == f"ZooKeeper does not answer: {words[0]} /a\n"


@pytest.mark.parametrize("address", ["h:²", "h:٣", "h:99999999999", "h:"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        parse_address(address)
    with pytest.raises(OptionError, match="must read host:port"):
        parse_servers(address)
