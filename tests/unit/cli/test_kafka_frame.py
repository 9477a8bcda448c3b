"""The frame of Kafka's command lines: options, errors, exit codes. The tools are in tests/clients."""

from __future__ import annotations

import io
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from moldau.tools.kafka import running, tools
from moldau.tools.kafka.java import properties
from moldau.tools.kafka.java.java_settings import translate
from moldau.tools.kafka.lines import options, subcommands
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, Ended, ToolError
from moldau.tools.kafka.queries import reaching

PARSER = Parser(
    "kafka-topics",
    "Creates topics.",
    [
        Option("bootstrap-server", "server to connect to", "A broker.", required=True),
        Option("topic", "topic", "The topic."),
        Option("partitions", "# of partitions", "How many.", kind=int),
        Option("config", "name=value", "A setting."),
        Option("compression-codec", "codec", "How.", may_lack_value=True),
        Option("time", "when", "When.", default="latest"),
        reaching.ZOOKEEPER,
        reaching.COMMAND_CONFIG,
        flag("list", "All of them."),
    ],
)


@pytest.mark.parametrize(
    "line",
    ["--topic x --list", "--topic=x --list", "-topic x -list", "--list --topic x", "--topic=x --list extra"],
)
def test_a_value_is_given_in_any_of_javas_ways(line: str) -> None:
    given = PARSER.parse(line.split())
    assert given.text("topic") == "x"
    assert given.flag("list")


def test_values() -> None:
    line = "--config a=1 --config b=2,3 --partitions 3 -z host:2181 -- --list"
    given = PARSER.parse(line.split())
    assert given.texts("config") == ["a=1", "b=2,3"]
    assert given.number("partitions") == 3
    assert given.text("zookeeper") == "host:2181"
    assert given.text("time") == "latest"
    assert given.text("topic") is None
    assert not given.flag("list")
    assert given.words == ["--list"]


def test_a_value_may_look_like_an_option_unless_it_may_be_missing() -> None:
    assert PARSER.parse(["--topic", "--list"]).text("topic") == "--list"
    given = PARSER.parse(["--compression-codec", "--list"])
    assert given.flag("list")
    assert given.flag("compression-codec")
    assert given.text("compression-codec") is None
    assert PARSER.parse(["--compression-codec", "zstd"]).text("compression-codec") == "zstd"


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--lisst", "lisst is not a recognized option", "The nearest is --list. Type: kafka-topics --list"),
        ("--topik=x", "topik is not a recognized option", "Type: kafka-topics --topic=x"),
        ("--bootstrap h:1", "bootstrap is not a recognized option", "--bootstrap-server h:1"),
        ("--quux", "quux is not a recognized option", "All options: kafka-topics --help"),
        ("--topic", "Option topic requires an argument", "Type: kafka-topics --topic TOPIC"),
    ],
)
def test_wrong_words_are_answered_with_what_to_type(line: str, message: str, hint: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        PARSER.parse(line.split())
    assert str(caught.value) == message
    assert hint in caught.value.hint
    assert caught.value.code == 1


def test_what_options_demand_of_each_other() -> None:
    given = PARSER.parse(["--list", "--topic", "a b", "--partitions", "many"])
    with pytest.raises(CommandLineError, match=r'Missing required argument "\[bootstrap-server\]"') as caught:
        PARSER.require_all(given)
    assert caught.value.hint.endswith("--topic 'a b' --partitions many --bootstrap-server BOOTSTRAP-SERVER")
    with pytest.raises(CommandLineError, match=r'Option "\[list\]" can\'t be used with option "\[topic\]"'):
        PARSER.exclude(given, "list", "config", "topic")
    with pytest.raises(CommandLineError, match="Cannot parse argument 'many' of option partitions"):
        given.number("partitions")
    with pytest.raises(CommandLineError, match="Found multiple arguments for option topic"):
        PARSER.parse(["--topic", "a", "--topic", "b"]).text("topic")


def test_help_and_version_end_as_kafkas_do() -> None:
    with pytest.raises(Ended) as said:
        PARSER.parse(["--help"])
    assert (said.value.code, said.value.on_stdout) == (1, False)
    lines = str(said.value).splitlines()
    assert lines[1].split() == ["Option", "Description"]
    assert any(line.startswith("--partitions <Integer: # of partitions>") for line in lines)
    assert max(map(len, lines)) <= 81
    with pytest.raises(Ended) as said:
        PARSER.parse(["--version"])
    assert (str(said.value), said.value.code, said.value.on_stdout) == (options.KAFKA_VERSION, 0, True)
    with pytest.raises(Ended):
        PARSER.parse([])


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A tool that does what a test says."""
    module = ModuleType("moldau_test_tool")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(tools.TOOLS, "kafka-trial", module.__name__)
    monkeypatch.delenv("MOLDAU_TRACEBACK", raising=False)
    return module


@pytest.mark.parametrize(
    ("raised", "code", "out", "err"),
    [
        (None, 7, "", ""),
        (ToolError("it failed", 3), 3, "", "it failed\n"),
        (ToolError("it failed", on_stdout=True), 1, "it failed\n", ""),
        (CommandLineError("wrong", "Type: this"), 1, "", "wrong\nType: this\n"),
        (Ended("4.3.1", 0, on_stdout=True), 0, "4.3.1\n", ""),
        (OSError("gone"), 1, "", "kafka-trial: gone\n"),
        (KeyboardInterrupt(), 130, "", ""),
    ],
)
def test_how_a_tool_ends(
    tool: ModuleType,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException | None,
    code: int,
    out: str,
    err: str,
) -> None:
    def main(words: list[str]) -> int:
        assert words == ["a", "b"]
        if raised is not None:
            raise raised
        return 7

    vars(tool)["main"] = main
    assert running.run("/opt/kafka/bin/kafka-trial.sh", ["a", "b"]) == code
    assert tuple(capsys.readouterr()) == (out, err)


def test_a_fault_of_a_tool_is_a_sentence(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    vars(tool)["main"] = lambda words: 1 // len(words)
    assert running.run("kafka-trial", []) == 1
    said = capsys.readouterr().err
    assert "fault of Moldau: ZeroDivisionError" in said
    assert "Traceback" not in said


def test_an_unknown_tool(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert running.run("kafka-trail.sh", []) == running.NO_SUCH_TOOL
    assert "the nearest is kafka-trial" in capsys.readouterr().err


def subcommands_parser() -> subcommands.Subcommands:
    parser = subcommands.Subcommands(prog="kafka-transactions.sh")
    parser.add_version()
    parser.add_argument("--bootstrap-server", required=True, metavar="host:port")
    actions = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    actions.add_parser("list").add_argument("--duration-filter")
    actions.add_parser("describe").add_argument("--transactional-id", required=True)
    return parser


@pytest.mark.parametrize(
    ("line", "last", "hint"),
    [
        ("", "error: too few arguments", ""),
        ("--bootstrap-server x:1", "error: too few arguments", ""),
        (
            "--bootstrap-server x:1 lst",
            "error: invalid choice: 'lst' (choose from 'list', 'describe')",
            "list",
        ),
        (
            "--bootstrap-server x:1 list --duration-filtr 3",
            "error: unrecognized arguments: '--duration-filtr'",
            "--duration-filter",
        ),
        ("--bootstrap-server x:1 describe", "error: argument --transactional-id is required", ""),
    ],
)
def test_subcommands_refuse_as_kafkas_do(line: str, last: str, hint: str) -> None:
    with pytest.raises(CommandLineError) as caught:
        subcommands_parser().parse_args(line.split())
    text = str(caught.value)
    assert text.startswith("usage: kafka-transactions.sh")
    assert text.splitlines()[-1] == f"kafka-transactions.sh: {last}"
    assert hint in caught.value.hint
    assert caught.value.code == 1


def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# a comment\n! another\n\n  a = 1\nb:2\nc 3\npath=C:\\\\x\n"
        "long=one\\\n    two\nsp\\ ace=\\u00e9\nempty=\n"
    )
    assert properties.read_properties(str(path)) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "path": "C:\\x",
        "long": "onetwo",
        "sp ace": "\u00e9",
        "empty": "",
    }
    with pytest.raises(ToolError, match="cannot be read"):
        properties.read_properties(str(tmp_path / "missing"))
    path.write_text(
        "config.providers=dir\n"
        "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
        f"sasl.password=${{dir:{tmp_path}:word}}\n"
    )
    with pytest.raises(ToolError, match=r"sasl\.password cannot be filled in: .*word cannot be read"):
        properties.read_properties(str(path))
    (tmp_path / "word").write_text("hush")
    assert properties.read_properties(str(path)) == {"sasl.password": "hush"}


def test_javas_settings_for_librdkafka(capsys: pytest.CaptureFixture[str]) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    java = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
        "buffer.memory": "1",
        "acks": "all",
        "zookeeper.connect": "localhost:2181",
        "exclude.internal.topics": "true",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor, range",
        "linger.ms": "soon",
        "retention.ms": "1",
    }
    assert translate(java) == {
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "acks": "all",
        "partition.assignment.strategy": "roundrobin,range",
        "linger.ms": "soon",
    }
    notes = capsys.readouterr().err
    assert "buffer.memory has no effect" in notes
    assert "zookeeper.connect is no setting of this client: it has no effect" in notes
    assert "retention.ms is no setting of this client: it has no effect" in notes
    with pytest.raises(ToolError, match="StickyAssignor is not known here; there are RangeAssignor"):
        translate({"partition.assignment.strategy": "org.apache.kafka.clients.consumer.StickyAssignor"})
    with pytest.raises(ToolError, match=r"/x\.jks: the file cannot be read"):
        translate({"ssl.truststore.location": "/x.jks"})


def given(line: str) -> Given:
    return PARSER.parse(line.split())


def test_a_broker_that_is_not_there_is_answered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(
        ToolError, match=f"no broker answers at 127.0.0.1:{port}.*\n.*moldau serve --port {port}"
    ):
        reaching.cluster(given(f"--bootstrap-server 127.0.0.1:{port} --list"))
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=SSL\n")
    with pytest.raises(ToolError, match=f"no broker answers at 127.0.0.1:{port}"):
        reaching.librdkafka(
            given(f"--bootstrap-server 127.0.0.1:{port} --command-config {config}"), client_id="x"
        )
    monkeypatch.setattr(reaching, "CONTACT_SECONDS", 0.05)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ToolError, match="no broker answers"):
            reaching.cluster(given(f"--bootstrap-server 127.0.0.1:{port} --list"))


def test_a_zookeeper_that_is_not_there_is_answered_with_the_line_to_type() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ToolError) as caught:
        reaching.servers(given(f"--zookeeper 127.0.0.1:{port}/kafka --list --topic x"))
    said = str(caught.value)
    assert said.startswith(f"no ZooKeeper answers at 127.0.0.1:{port}")
    assert said.endswith("Type: kafka-topics --bootstrap-server localhost:9092 --list --topic x")


def test_a_closed_pipe_is_no_failure(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return spare

    import os

    spare = os.open(os.devnull, os.O_WRONLY)
    try:
        monkeypatch.setattr(sys, "stdout", Closed())
        vars(tool)["main"] = lambda words: print("much") or 0
        assert running.run("kafka-trial", []) == running.READER_GONE
    finally:
        os.close(spare)
