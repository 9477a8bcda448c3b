"""The files are Kafka's own: Apache Kafka's dump tool reads what Moldau wrote, and Moldau opens what Kafka
wrote.

Needs Apache Kafka from Maven Central (`bench/apache_kafka`), and therefore Java and Maven.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import CODECS, Message, eventually
from conftest import KIND, SETTINGS, start_broker

from bench import apache_kafka
from bench.brokers import ApacheKafka, BrokerProcess

reason = apache_kafka.available() or ("only of interest for Moldau" if KIND != "moldau" else None)
pytestmark = pytest.mark.skipif(reason is not None, reason=str(reason))

DUMP = "org.apache.kafka.tools.DumpLogSegments"
# Hexadecimal noise shrinks by half, so that every codec is used and several segments are filled.
NOISE = random.Random(1)
MESSAGES = [
    Message(f"k{i % 7}".encode(), b"value %d " % i + NOISE.randbytes(3000).hex().encode(), (("h", b"1"),))
    for i in range(200)
]


def dump(*arguments: str) -> str:
    """What Kafka's tool says of files."""
    command = apache_kafka.java_command(DUMP, list(arguments))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_some(broker: BrokerProcess, topic: str, group: str) -> None:
    """Several segments of every codec, by an idempotent producer, and a group that has read them."""
    create_topic(broker.address, topic, 1, segment_bytes="1048576", index_interval_bytes="100")
    client = ConfluentClient(broker.address)
    for codec in CODECS:
        for first in range(0, len(MESSAGES), 50):
            client.produce(topic, MESSAGES[first : first + 50], codec, **{"enable.idempotence": True})
    member = client.open_member(group, [topic])
    count = len(MESSAGES) * len(CODECS)
    read: list[object] = []
    eventually(lambda: read.extend(member.take()) or len(read) == count)
    member.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log folder that Moldau wrote and closed."""
    broker = start_broker(tmp_path_factory.mktemp("written"))
    write_some(broker, "dumped", "dumping-group")
    broker.stop()
    return Path(broker.log_dir())


def test_kafka_reads_the_records(written: Path) -> None:
    segments = sorted((written / "dumped-0").glob("*.log"))
    assert len(segments) > 2
    said = dump("--print-data-log", "--deep-iteration", "--files", ",".join(map(str, segments)))
    assert "isvalid: false" not in said
    for codec in CODECS:
        assert f"compresscodec: {codec}" in said
    records = [line for line in said.splitlines() if line.startswith("| offset:")]
    assert len(records) == len(MESSAGES) * len(CODECS)
    assert sum("payload: value 7 " in line for line in records) == len(CODECS)


def test_kafka_finds_the_indexes_sound(written: Path) -> None:
    indexes = sorted((written / "dumped-0").glob("*.index"))
    times = sorted((written / "dumped-0").glob("*.timeindex"))
    assert len(indexes) > 2
    said = dump("--verify-index-only", "--files", ",".join(map(str, indexes)))
    assert "Mismatches" not in said
    said = dump("--files", ",".join(map(str, times)))
    assert "Found timestamp mismatch" not in said
    assert "Found out of order timestamp" not in said


def test_kafka_reads_the_producer_snapshots(written: Path) -> None:
    snapshots = sorted((written / "dumped-0").glob("*.snapshot"))
    assert snapshots
    said = dump("--files", str(snapshots[-1]))
    assert "producerId:" in said
    assert "producerEpoch: 0" in said


def test_kafka_reads_the_committed_offsets(written: Path) -> None:
    logs = [one for one in written.glob("__consumer_offsets-*/*.log") if one.stat().st_size]
    said = dump("--offsets-decoder", "--files", ",".join(map(str, logs)))
    assert '"group":"dumping-group"' in said.replace(" ", "")
    assert f'"offset":{len(MESSAGES) * len(CODECS)}' in said.replace(" ", "")


def test_moldau_opens_a_folder_that_kafka_wrote(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", SETTINGS).start()
    try:
        write_some(kafka, "moved", "moving-group")
    finally:
        kafka.stop()
    shutil.copytree(kafka.log_dir(), tmp_path / "moldau" / "data")
    moldau = start_broker(tmp_path / "moldau")
    request.addfinalizer(moldau.kill)
    client = ConfluentClient(moldau.address)
    count = len(MESSAGES) * len(CODECS)
    found = client.read({"moved": count})["moved"]
    assert [one.offset for one in found] == list(range(count))
    assert [one.content for one in found] == [one.content for one in MESSAGES] * len(CODECS)
    client.produce("moved", [Message(b"k", b"one more")])
    member = client.open_member("moving-group", ["moved"])
    read: list[bytes | None] = []
    eventually(lambda: read.extend(one.value for one in member.take()) or read)
    assert read == [b"one more"], "the group's committed offsets moved with it"
    member.close()
