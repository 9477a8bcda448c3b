"""Kafka's load generators and verifiable clients as Moldau serves them, and a dump of what they wrote."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from child_process import child
from client_confluent import create_topic

from bench.brokers import BrokerProcess

CSV = re.compile(
    r"[\d-]{10} [\d:]{12}, [\d-]{10} [\d:]{12}, [\d.]+, [\d.]+, (\d+), [\d.]+, \d+, \d+, [\d.]+, [\d.]+"
)
PRODUCED = re.compile(
    r"2000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
    r"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99.9th\."
)


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "moldau.tools.kafka", *words]


def tool(*words: str, code: int = 0) -> list[str]:
    """Run a tool; its lines on standard output."""
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.splitlines()


def events(lines: list[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in lines]
    assert [list(each)[:2] for each in found] == [["timestamp", "name"]] * len(found)
    return found


def test_what_the_load_generator_sent_is_read(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    server = ["--bootstrap-server", bootstrap, "--topic", topic]
    rate = ["--throughput", "-1", "--command-property", "acks=all", "linger.ms=1"]
    said = tool("kafka-producer-perf-test.sh", *server, "--num-records", "2000", "--record-size", "50", *rate)
    assert PRODUCED.fullmatch(said[-1]), said
    count = ["--num-records", "2000", "--hide-header", "--print-metrics"]
    read = tool("kafka-consumer-perf-test.sh", *server, *count)
    matched = CSV.fullmatch(read[0])
    assert matched is not None, read
    assert matched[1] == "2000"
    assert any(line.startswith("consumer-metrics:") for line in read[1:])
    few = ["--messages", "9", "--from-latest", "--timeout", "1000"]
    short = tool("kafka-consumer-perf-test.sh", *server, *few)
    assert short[0].startswith("Warning: --messages is deprecated.")
    assert short[2].startswith("WARNING: Exiting before consuming the expected number of records")
    words = [bootstrap, topic, "30", "all", "20"]
    *_, mean, shares = tool("kafka-e2e-latency.sh", *words)
    assert re.fullmatch(r"Avg latency: \d+\.\d{4} ms", mean)
    assert re.fullmatch(r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+", shares)


def test_the_verifiable_clients_agree_and_end_when_they_are_asked_to(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)
    server = ["--bootstrap-server", bootstrap, "--topic", topic]
    named = ["--max-messages", "5", "--value-prefix", "7", "--repeating-keys", "2"]
    sent = events(tool("kafka-verifiable-producer.sh", *server, *named))
    assert [each["name"] for each in sent] == [
        "startup_complete",
        *["producer_send_success"] * 5,
        "shutdown_complete",
        "tool_data",
    ]
    assert [(each["key"], each["value"], each["offset"]) for each in sent[1:6]] == [
        (str(number % 2), f"7.{number}", number) for number in range(5)
    ]
    assert (sent[-1]["sent"], sent[-1]["acked"], sent[-1]["target_throughput"]) == (5, 5, -1)
    ends = {"kafka-verifiable-producer.sh": ["--throughput", "20"], "kafka-verifiable-consumer.sh": []}
    for name, end in ends.items():
        group = ["--group-id", topic, "--verbose"] if "consumer" in name else []
        line = command(name, *server, *group, *end)
        with child(line, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            lines = [program.stdout.readline()]
            wanted = "producer_send_success" if "producer" in name else "offsets_committed"
            while wanted not in lines[-1]:
                lines.append(program.stdout.readline())
                assert lines[-1], lines
            program.send_signal(signal.SIGTERM)
            lines += program.stdout.readlines()
            assert program.wait(60) == 0
        names = [each["name"] for each in events(lines)]
        assert names[0] == "startup_complete"
        assert "shutdown_complete" in names[-2:], names
        if "consumer" in name:
            kinds = ("partitions_assigned", "record_data", "records_consumed", "offsets_committed")
            assert sorted(kinds, key=names.index) == list(kinds)
            consumed = next(each for each in events(lines) if each["name"] == "records_consumed")
            assert consumed["partitions"][0]["minOffset"] == 0


@pytest.mark.timeout(300)
def test_files_of_a_broker_are_dumped(private_broker: Callable[..., BrokerProcess]) -> None:
    broker = private_broker(group_initial_rebalance_delay_ms="0")
    server = ["--bootstrap-server", broker.address, "--topic", "dumped"]
    named = ["--max-messages", "3", "--repeating-keys", "2"]
    tool("kafka-verifiable-producer.sh", *server, *named)
    tool("kafka-verifiable-consumer.sh", *server, "--group-id", "readers", "--max-messages", "3")
    words = ["--topic", "dumped", "--num-records", "2", "--record-size", "9", "--throughput", "-1"]
    tool("kafka-producer-perf-test.sh", *server[:2], *words, "--transactional-id", "payer")
    segment = next(broker.log_dir().glob("dumped-0/*.log"))
    said = tool("kafka-dump-log.sh", "--files", str(segment), "--print-data-log")
    assert said[:2] == [f"Dumping {segment}", "Log starting offset: 0"]
    values = [re.search(r"key: (\d) payload: (\d)", line) for line in said]
    assert [each.groups() for each in values if each][:3] == [("0", "0"), ("1", "1"), ("0", "2")]
    assert any("endTxnMarker: COMMIT" in line for line in said), said
    logs = sorted(map(str, broker.log_dir().glob("__consumer_offsets-*/*.log")))
    offsets = tool("kafka-dump-log.sh", "--files", ",".join(logs), "--offsets-decoder")
    committed = '{"type":"1","data":{"group":"readers","topic":"dumped","partition":0}}'
    assert any(f"key: {committed} payload: " in line and '"offset":3,' in line for line in offsets)
    assert any('"subscription":{"topics":["dumped"],' in line for line in offsets)
    logs = sorted(map(str, broker.log_dir().glob("__transaction_state-*/*.log")))
    states = tool("kafka-dump-log.sh", "--files", ",".join(logs), "--transaction-log-decoder")
    assert any('{"type":"0","data":{"transactionalId":"payer"}}' in line for line in states)
    damaged = segment.read_bytes()
    # In the first record, whatever the batches are: the checksum does not cover the first bytes of one.
    other = bytes([damaged[65] ^ 0xFF])
    segment.with_name("00000000000000000009.log").write_bytes(damaged[:65] + other + damaged[66:])
    torn = tool("kafka-dump-log.sh", "--files", str(segment.with_name("00000000000000000009.log")), code=1)
    assert any("isvalid: false" in line for line in torn)
