"""Tools that start, stop and prepare servers: what they read and write, without the servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.common.core.properties import parse_properties
from moldau.common.settings.sources import from_texts
from moldau.tools.kafka import releases
from moldau.tools.kafka.homes.config_files import config_files
from moldau.tools.kafka.homes.processes import Process, log_folder
from moldau.tools.kafka.lines.script_words import script_words
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.programs import storage, zookeeper_shell
from moldau.tools.kafka.programs.consumer_perf_test import java_time_format, moment
from moldau.tools.kafka.programs.leader_election import parse_places
from moldau.tools.kafka.programs.server_start import USAGE
from moldau.tools.kafka.programs.server_stop import node_id


def test_the_command_line_of_a_broker() -> None:
    words = ["-daemon", "a", "--override", "x=1", "--override=y=2=3"]
    assert script_words(words, USAGE) == (["a"], ["x=1", "y=2=3"], True)
    assert script_words(["-name", "kafkaServer", "-loggc", "a"], USAGE) == (["a"], [], False)
    for wrong in ([], ["--help"], ["a", "b"], ["a", "--override"], ["a", "--override", "x"]):
        with pytest.raises(CommandLineError) as problem:
            script_words(wrong, USAGE)
        assert "USAGE" in f"{problem.value} {problem.value.hint}"


def test_the_brokers_of_a_home_have_no_setting_that_is_unknown_or_without_effect(tmp_path: Path) -> None:
    files = config_files(tmp_path)
    for name in ("server.properties", "kraft/server.properties"):
        assert from_texts(parse_properties(files[name])).warnings == ()
    with_zookeeper = from_texts(parse_properties(files["server.properties"])).broker
    assert with_zookeeper.zookeeper_connect == "localhost:2181"
    assert with_zookeeper.data_directories == (str(tmp_path / "data" / "kafka-logs"),)
    assert from_texts(parse_properties(files["kraft/server.properties"])).broker.zookeeper_connect is None
    assert parse_properties(files["zookeeper.properties"])["clientPort"] == "2181"


def test_a_broker_to_stop_is_known_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=4\n")
    process = Process(2**22 + 1, ())
    assert node_id(process, [str(file)]) == "4"
    assert node_id(process, [str(file), "--override", "node.id=7"]) == "7"
    assert node_id(process, [str(tmp_path / "gone")]) == ""
    assert node_id(process, []) == ""


def test_output_in_the_background_goes_beside_the_config_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOG_DIR", raising=False)
    assert log_folder(str(tmp_path / "config" / "server.properties")) == tmp_path / "logs"
    assert log_folder(str(tmp_path / "config" / "kraft" / "server.properties")) == tmp_path / "logs"
    monkeypatch.setenv("LOG_DIR", "/somewhere")
    assert log_folder("server.properties") == Path("/somewhere")


def test_a_folder_is_formatted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    assert storage.info(folders) == 1
    assert f"{folders[0]} does not exist" in capsys.readouterr().out
    storage.format_([folders[0]], "clusterclusterclusterX", "3", ignore_formatted=False)
    written = parse_properties((folders[0] / "meta.properties").read_text())
    assert (written["cluster.id"], written["node.id"], written["version"]) == (
        "clusterclusterclusterX",
        "3",
        "1",
    )
    with pytest.raises(ToolError, match="already formatted"):
        storage.format_(folders, "clusterclusterclusterX", "3", ignore_formatted=False)
    with pytest.raises(ToolError, match="Expected other, but read clusterclusterclusterX"):
        storage.format_(folders, "other", "3", ignore_formatted=True)
    assert not folders[1].exists()
    storage.format_(folders, "clusterclusterclusterX", "3", ignore_formatted=True)
    assert storage.info(folders) == 0
    capsys.readouterr()
    storage.format_(folders, "clusterclusterclusterX", "3", ignore_formatted=True)
    assert "All of the log directories are already formatted." in capsys.readouterr().out
    storage.format_([tmp_path / "d"], "J7s9e8PPTKOO47PxzI39+/==", "3", ignore_formatted=False)
    written = parse_properties((tmp_path / "d" / "meta.properties").read_text())
    assert written["cluster.id"] == "J7s9e8PPTKOO47PxzI39+/=="
    with pytest.raises(ToolError, match="cannot be a cluster id"):
        storage.format_([tmp_path / "c"], "no good", "3", ignore_formatted=False)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (["-f", "group.version=9"], "No feature:group.version with feature level 9"),
        (["-f", "nosuch=1"], "Unsupported feature: nosuch. Supported features are: eligible.leader.replicas"),
        (["-f", "group.version"], "equals sign not found"),
        (["-r", "1.0"], "Unknown metadata.version '1.0'"),
    ],
)
def test_levels_that_cannot_be_format_nothing(tmp_path: Path, words: list[str], refusal: str) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={tmp_path / 'data'}\n")
    with pytest.raises(ToolError, match=refusal):
        storage.main(["format", "-t", "clusterclusterclusterX", "-c", str(settings), *words])
    assert not (tmp_path / "data").exists()


def test_random_ids_may_follow_an_option() -> None:
    ids = {storage.random_id() for _ in range(300)}
    assert len(ids) == 300
    assert not [each for each in ids if each.startswith("-") or len(each) != 22]


def test_levels_of_releases() -> None:
    assert releases.features_of("4.0")["metadata.version"] == 25
    assert releases.features_of("4.0-IV0")["transaction.version"] == 0
    assert releases.features_of(None) == {
        "metadata.version": 30,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }
    with pytest.raises(ToolError, match=r"Unknown metadata.version '4'"):
        releases.features_of("4")


def test_partitions_to_elect_leaders_for() -> None:
    assert parse_places('{"partitions": [{"topic": "a", "partition": 1}]}') == [("a", 1)]
    for wrong in ("", "[]", '{"a": 1}', '{"partitions": [{"topic": "a"}]}', '{"partitions": 4}'):
        with pytest.raises(ToolError):
            parse_places(wrong)
    with pytest.raises(ToolError, match=r"duplicate partitions: \[a-1\]"):
        parse_places('{"partitions": [{"topic": "a", "partition": 1}, {"topic": "a", "partition": 1}]}')


def test_formats_of_java_for_times(monkeypatch: pytest.MonkeyPatch) -> None:
    assert java_time_format("yyyy-MM-dd HH:mm:ss:SSS") == "%Y-%m-%d %H:%M:%S:%f"
    assert java_time_format("yy 'at' HH%") == "%y at %H%%"
    assert moment(1_700_000_000.1234, "%f") == "123"


class Refusing:
    """A ZooKeeper client that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


@pytest.mark.parametrize(
    "words", [["ls"], ["ls", "nodes"], ["get"], ["set", "/a"], ["nonsense"], ["ls", "/", "/a"]]
)
def test_commands_of_the_shell_that_cannot_be(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("kazoo")
    assert zookeeper_shell.run_words(Refusing(), words) == 1
    assert capsys.readouterr().err
