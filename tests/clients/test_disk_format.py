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
from confluent_kafka import Producer
from conftest import KIND, SETTINGS, start_broker

from bench import apache_kafka
from bench.brokers import ApacheKafka, BrokerProcess
from moldau.broker.log.recovery.recovery import open_log
from moldau.common.core.files import OsFiles
from moldau.common.records.builder import build_batch
from moldau.common.records.control import ControlType, EndTransactionMarker
from moldau.common.records.record import Record
from moldau.common.settings.topic import TopicSettings

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


def test_kafka_reads_the_index_of_aborted_transactions(tmp_path: Path) -> None:
    log = open_log(OsFiles(), str(tmp_path), "t", 0, TopicSettings()).log
    for producer_id, ended in ((7, False), (8, True)):
        record = Record(0, 1_700_000_000_000, b"k", b"v")
        batch = build_batch(
            [record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
        )
        guard = log.transactions.begin_verification(producer_id, 0)
        assert not log.leader.append_verified(memoryview(batch), 0, record.timestamp_ms, guard).error_code
        if ended:
            marker = EndTransactionMarker(ControlType.ABORT, 3)
            assert not log.leader.append_marker(marker, producer_id, 0, 0, record.timestamp_ms).error_code
    log.close()
    (index,) = tmp_path.glob("*.txnindex")
    said = dump("--files", str(index))
    assert "version: 0 producerId: 8 firstOffset: 1 lastOffset: 2 lastStableOffset: 0" in said


def write_transactions(broker: BrokerProcess, topic: str) -> None:
    """Transactions of three producers that overlap, several segments long; some are left open."""
    create_topic(broker.address, topic, 1, segment_bytes="1048576")
    source = random.Random(3)
    servers = {"bootstrap.servers": broker.address}
    producers = [Producer({**servers, "transactional.id": f"{topic}-{index}"}) for index in range(3)]
    for producer in producers:
        producer.init_transactions(30)
    begun: set[int] = set()
    for _ in range(400):
        index = source.randrange(3)
        producer = producers[index]
        if index not in begun:
            producer.begin_transaction()
            begun.add(index)
        for _ in range(source.randint(1, 4)):
            producer.produce(topic, source.randbytes(3000), b"k")
        producer.flush(20)
        choice = source.random()
        if choice < 0.4:
            begun.discard(index)
            (producer.abort_transaction if choice < 0.25 else producer.commit_transaction)(20)


def check_transactions(theirs: Path, copy: Path) -> None:
    """What Kafka's index says of aborted transactions is what the records say, and what Moldau finds."""
    shutil.copytree(theirs, copy)
    kept = open_log(OsFiles(), str(copy), "t", 0, TopicSettings(), clean=True).log
    aborted, ongoing = kept.transactions.aborted_in(0, kept.log_end_offset), dict(kept.producers.ongoing)
    kept.close()
    assert len(aborted) > 20
    for path in copy.glob("*.txnindex"):
        path.unlink()
    anew = open_log(OsFiles(), str(copy), "t", 0, TopicSettings(), clean=False).log
    assert anew.transactions.aborted_in(0, anew.log_end_offset) == aborted
    assert dict(anew.producers.ongoing) == ongoing
    anew.close()
    written = {path.name: path.read_bytes() for path in copy.glob("*.txnindex")}
    assert written == {path.name: path.read_bytes() for path in theirs.glob("*.txnindex")}


def test_moldau_opens_a_folder_that_kafka_wrote(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kafka = ApacheKafka(tmp_path / "kafka", SETTINGS).start()
    try:
        write_some(kafka, "moved", "moving-group")
        write_transactions(kafka, "undone")
    finally:
        kafka.stop()
    check_transactions(Path(kafka.log_dir()) / "undone-0", tmp_path / "undone-0")
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
