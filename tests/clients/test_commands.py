"""The client commands against a live broker, as a person or a script runs them.

A process, its output, its exit code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child_process import child

from moldau.testing import Broker

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def moldau(bootstrap: str) -> Run:
    """Runs `moldau WORDS...` against the session's broker; `code` is the exit code that is expected."""

    def run(*words: str, data: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        finished = subprocess.run(
            [sys.executable, "-m", "moldau", *words, "-b", bootstrap],
            input=data,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == code, finished.stderr.decode()
        return finished

    return run


def as_json(finished: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(finished.stdout)


def test_topics_from_creation_to_deletion(moldau: Run, topic: str) -> None:
    assert moldau("topics", "create", topic, "-p", "2", "-c", "retention.ms=1000000").stdout == (
        f"Created topic {topic}.\n".encode()
    )
    assert b"TOPIC_ALREADY_EXISTS" in moldau("topics", "create", topic, code=1).stderr
    moldau("topics", "create", topic, "--if-not-exists")

    (described,) = as_json(moldau("topics", "describe", topic, "--json"))
    assert described["partition_count"] == 2
    assert described["settings"] == [{"name": "retention.ms", "value": "1000000", "source": "topic"}]
    assert [each["end"] for each in described["partitions"]] == [0, 0]
    first, *partitions = moldau("topics", "describe", topic).stdout.decode().splitlines()
    assert first.startswith(f"Topic: {topic}\tTopicId: {described['topic_id']}\tPartitionCount: 2\t")
    assert partitions[1].startswith(f"\tTopic: {topic}\tPartition: 1\tLeader: ")

    moldau("topics", "alter", topic, "-p", "3", "-c", "retention.ms=2000000")
    (listed,) = as_json(moldau("topics", "list", topic, "--json"))
    assert listed == {"topic": topic, "partitions": 3, "replicas": 1}
    moldau("topics", "alter", topic, "-p", "1", code=1)
    assert moldau("topics", "list", "--under-replicated-partitions").stdout == b""

    moldau("topics", "delete", topic)
    assert b"there is no topic" in moldau("topics", "describe", topic, code=1).stderr
    moldau("topics", "delete", topic, "--if-exists")


def test_configs_show_where_a_value_comes_from(moldau: Run, topic: str) -> None:
    moldau("topics", "create", topic)
    moldau(
        "configs", "alter", "topic", topic, "--set", "retention.ms=5000", "--set", "cleanup.policy=compact"
    )
    rows = {
        row["name"]: row for row in as_json(moldau("configs", "describe", "topic", topic, "--all", "--json"))
    }
    assert (rows["retention.ms"]["value"], rows["retention.ms"]["source"]) == ("5000", "topic")
    assert rows["max.message.bytes"]["source"] != "topic"
    moldau("configs", "alter", "topic", topic, "--delete", "retention.ms")
    rows = {
        row["name"]: row for row in as_json(moldau("configs", "describe", "topic", topic, "--all", "--json"))
    }
    assert rows["retention.ms"]["source"] != "topic"
    misspelt = moldau("configs", "alter", "topic", topic, "--delete", "cleanup.polcy", code=1).stderr
    assert b"nothing was changed; did you mean cleanup.policy?" in misspelt
    assert (
        b"INVALID_CONFIG" in moldau("configs", "alter", "topic", topic, "--set", "no.such=1", code=1).stderr
    )
    brokers = as_json(moldau("configs", "describe", "broker", "--all", "--json"))
    assert {"log.retention.ms", "num.partitions"} <= {row["name"] for row in brokers}
    assert b"no broker 77" in moldau("configs", "describe", "broker", "77", code=1).stderr
    alter = ("configs", "alter", "broker", "77", "-s", "log.cleaner.threads=2")
    assert b"no broker 77" in moldau(*alter, code=1).stderr


def test_settings_of_every_broker_at_once(moldau: Run) -> None:
    assert (
        b"every broker"
        in moldau("configs", "alter", "broker", "default", "-s", "log.cleaner.threads=2").stdout
    )

    def rows() -> list[tuple[str, str, str]]:
        found = as_json(moldau("configs", "describe", "broker", "default", "--json"))
        return [(row["name"], row["value"], row["source"]) for row in found]

    of_a_new_cluster = ("min.insync.replicas", "1", "broker default")
    assert rows() == [("log.cleaner.threads", "2", "broker default"), of_a_new_cluster]
    moldau("configs", "alter", "broker", "default", "-d", "log.cleaner.threads")
    assert rows() == [of_a_new_cluster]
    again = moldau("configs", "alter", "broker", "default", "-d", "log.cleaner.threads").stderr
    assert b"no default of log.cleaner.threads was set" in again
    refused = moldau("configs", "alter", "broker", "default", "-s", "no.such=1", code=1).stderr
    assert b"no.such" in refused
    assert b"Traceback" not in refused


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_go_in_and_come_out(moldau: Run, topic: str, codec: str) -> None:
    moldau("topics", "create", topic, "-p", "3")
    lines = b"".join(b"key%d:value %d\n" % (index % 7, index) for index in range(100))
    finished = moldau("produce", topic, "-K", ":", "-z", codec, "-H", "source=test", data=lines)
    assert b"sent 100 records" in finished.stderr
    shown = moldau("consume", topic, "-e", "-f", r"%k:%v %h{%k=%v}\n").stdout.splitlines()
    assert sorted(shown) == sorted(line + b" source=test" for line in lines.splitlines())
    by_key = [line for line in shown if line.startswith(b"key3:")]
    assert by_key == [line + b" source=test" for line in lines.splitlines() if line.startswith(b"key3:")]


def test_consume_by_offset_time_count_and_partition(moldau: Run, topic: str, tmp_path: Path) -> None:
    moldau("topics", "create", topic, "-p", "2")
    file = tmp_path / "input"
    file.write_text("".join(f"{1_000_000 + 1_000 * index} {index}\n" for index in range(10)))
    moldau("produce", topic, str(file), "-f", r"%d %v\n", "-p", "1", "-q")

    def values(*words: str) -> list[int]:
        return [int(line) for line in moldau("consume", topic, *words).stdout.split()]

    assert values("-e") == list(range(10))
    assert values("-o", "-3", "-e") == [7, 8, 9]
    assert values("-o", "2:5") == [2, 3, 4]
    assert values("-o", "+8", "-e") == [8, 9]
    assert values("-n", "4") == [0, 1, 2, 3]
    assert values("-o", "@1970-01-01T00:16:47:end") == [7, 8, 9]
    assert values("-o", ":@1970-01-01T00:16:42".replace(":@", "@:", 1)) == [0, 1]
    assert values("-p", "0", "-e") == []
    assert values("-o", "end", "--idle", "0.5") == []
    assert b"no partition 7" in moldau("consume", topic, "-p", "7", code=1).stderr
    assert b"there is no topic" in moldau("consume", topic + "-not", code=1).stderr


def test_binary_tombstones_and_json(moldau: Run, topic: str) -> None:
    moldau("topics", "create", topic)
    moldau("produce", topic, "-f", "%K{big32}%k%V{big32}%v", data=b"\0\0\0\x01a\0\0\0\x02\xff\n")
    moldau("produce", topic, "-k", "gone", "--tombstone")
    binary, tombstone = [
        json.loads(line) for line in moldau("consume", topic, "-e", "--json").stdout.splitlines()
    ]
    assert (binary["key"], binary["value"]) == ("a", {"base64": "/wo="})
    assert (tombstone["key"], tombstone["value"], tombstone["offset"]) == ("gone", None, 1)


def test_acknowledged_records_can_be_printed(moldau: Run, topic: str) -> None:
    moldau("topics", "create", topic)
    finished = moldau("produce", topic, "-q", "--output-format", r"%p %o\n", "-a", "1", data=b"a\nb\n")
    assert finished.stdout == b"0 0\n0 1\n"
    assert finished.stderr == b""


def test_trim_moves_the_start(moldau: Run, topic: str) -> None:
    moldau("topics", "create", topic)
    moldau("produce", topic, data=b"a\nb\nc\n")
    assert b"now begins at offset 2" in moldau("topics", "trim", topic, "--before", "2").stdout
    assert moldau("consume", topic, "-e").stdout == b"c\n"
    assert b"no partition 7" in moldau("topics", "trim", topic, "-o", "2", "-p", "7", code=1).stderr


def test_a_group_is_read_moved_and_deleted(moldau: Run, topic: str, group: str, tmp_path: Path) -> None:
    moldau("topics", "create", topic, "-p", "2")
    for partition in ("0", "1"):
        moldau("produce", topic, "-p", partition, data=b"a\nb\nc\n")
    assert sorted(moldau("consume", topic, "-g", group, "-e").stdout.split()) == [
        b"a",
        b"a",
        b"b",
        b"b",
        b"c",
        b"c",
    ]

    def offsets() -> dict[int, tuple[int, int]]:
        rows = as_json(moldau("groups", "describe", group, "--json"))
        return {row["partition"]: (row["current_offset"], row["lag"]) for row in rows}

    assert offsets() == {0: (3, 0), 1: (3, 0)}
    assert {"group": group, "state": "Empty", "type": "Classic"} in as_json(
        moldau("groups", "list", "--json")
    )
    (state,) = as_json(moldau("groups", "state", group, "--json"))
    assert (state["state"], state["members"]) == ("Empty", 0)
    assert as_json(moldau("groups", "members", group, "--json")) == []

    dry = moldau("groups", "reset-offsets", group, "--topic", topic, "--to-earliest")
    beyond = moldau("groups", "reset-offsets", group, "--topic", f"{topic}:0", "--to-offset", "-5")
    assert b"0 is taken for -5" in beyond.stderr
    assert b"dry run" in dry.stderr
    assert offsets() == {0: (3, 0), 1: (3, 0)}
    moldau("groups", "reset-offsets", group, "--topic", f"{topic}:1", "--shift-by", "-2", "--execute")
    assert offsets() == {0: (3, 0), 1: (1, 2)}

    plan = tmp_path / "plan.csv"
    plan.write_bytes(
        moldau("groups", "reset-offsets", group, "--all-topics", "--to-current", "--export").stdout
    )
    assert plan.read_text() == f"{topic},0,3\n{topic},1,1\n"
    for words in (["--to-latest"], ["--to-datetime", "2038-01-01T00:00:00.000"], ["--to-offset", "99"]):
        moldau("groups", "reset-offsets", group, "--all-topics", *words, "--execute")
        assert offsets() == {0: (3, 0), 1: (3, 0)}
    moldau("groups", "reset-offsets", group, "--all-topics", "--by-duration", "PT1H", "--execute")
    assert offsets() == {0: (0, 3), 1: (0, 3)}
    moldau("groups", "reset-offsets", group, "--from-file", str(plan), "--execute")
    assert offsets() == {0: (3, 0), 1: (1, 2)}
    assert moldau("consume", topic, "-g", group, "-e").stdout == b"b\nc\n"

    assert b"Deleted the offset" in moldau("groups", "delete-offsets", group, "--topic", f"{topic}:1").stdout
    assert offsets() == {0: (3, 0)}
    moldau("groups", "delete", group)
    assert b"there is no group" in moldau("groups", "describe", group, code=1).stderr


def test_a_group_with_members_is_shown_and_kept(moldau: Run, bootstrap: str, topic: str, group: str) -> None:
    moldau("topics", "create", topic)
    moldau("produce", topic, data=b"a\n")
    words = [sys.executable, "-m", "moldau", "consume", topic, "-g", group, "-b", bootstrap]
    with child(words, stdout=subprocess.PIPE) as reader:
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"a\n"
            (member,) = as_json(moldau("groups", "members", group, "--json"))
            assert member["assignment"] == [f"{topic}-0"]
            refused = moldau("groups", "reset-offsets", group, "--topic", topic, "--to-latest", code=1)
            assert b"is Stable" in refused.stderr
            assert b"NON_EMPTY_GROUP" in moldau("groups", "delete", group, code=1).stderr
        finally:
            reader.terminate()


def test_status_judges_by_metadata_where_no_health_page_is(moldau: Run, bootstrap: str) -> None:
    document = as_json(moldau("status", "--json", "--http", "127.0.0.1:1"))
    assert document["status"] == "ok"
    assert document["health"] is None
    assert document["cluster"]["brokers"][0]["address"] == bootstrap


def test_status_tells_the_broker_s_own_verdict(moldau_session_broker: Broker) -> None:
    where = ["-b", moldau_session_broker.bootstrap_servers, "--http", moldau_session_broker.http_address]
    words = [sys.executable, "-m", "moldau", "status", *where]
    document = json.loads(subprocess.run([*words, "--json"], capture_output=True, check=True).stdout)
    assert document["status"] == document["health"]["verdict"] == "ok"
    shown = subprocess.run(words, capture_output=True, check=True).stdout.decode()
    assert shown.startswith("status: ok\nbroker 1: Moldau ")


def test_loads_are_measured(moldau: Run, topic: str) -> None:
    moldau("topics", "create", topic, "-p", "2")
    sent = as_json(
        moldau("perf", "produce", topic, "-n", "3000", "--size", "50", "--warmup", "100", "--json")
    )
    assert (sent["records"], sent["bytes"], sent["failed"]) == (3000, 150_000, 0)
    assert sent["steady"]["records"] == 2900
    assert sum(row["records"] for row in sent["latency_ms"]["histogram"]) == 3000
    read = as_json(moldau("perf", "consume", topic, "-n", "3000", "--json"))
    assert (read["records"], read["bytes"]) == (3000, 150_000)
    assert (
        b"gave 0 of 10 records"
        in moldau("perf", "consume", topic, "-n", "10", "--from-latest", "--patience", "1", code=1).stderr
    )
    there_and_back = as_json(moldau("perf", "latency", topic, "-n", "20", "--json"))
    assert there_and_back["records"] == 20
    shown = moldau("perf", "produce", topic, "-n", "500", "--transaction-ms", "20").stdout.decode()
    assert shown.startswith(f"500 records to {topic} in ")
    assert "%" in shown.splitlines()[-1]
    assert (
        b"MSG_SIZE_TOO_LARGE"
        in moldau(
            "perf",
            "produce",
            topic,
            "-n",
            "5",
            "--size",
            "2000000",
            "-X",
            "message.max.bytes=5000000",
            code=1,
        ).stderr
    )
