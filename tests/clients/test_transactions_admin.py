"""Transactions as operators see them: the Java Admin, Kafka's own tools, and the files on disk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client_agents import AgentClient, AgentError
from client_confluent import create_topic
from client_model import Place, eventually
from client_raw_transactions import RawProducer, ends, group_offset
from client_transactions import AgentTransactions, ConfluentTransactions, Failed
from conftest import make_client, start_broker
from raw_client import RawClient
from test_kafka_tools import TOOLS, tool

from bench import apache_kafka

needs_tools = pytest.mark.skipif(apache_kafka.available() is not None, reason=str(apache_kafka.available()))
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"


@pytest.fixture(scope="module")
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as one:
        yield one


@pytest.fixture
def place(bootstrap: str, raw: RawClient, topic: str) -> Place:
    create_topic(bootstrap, topic)
    eventually(lambda: ends(raw, (topic, 0)) == [(0, 0)])
    return (topic, 0)


@pytest.fixture
def ongoing(raw: RawClient, place: Place) -> RawProducer:
    """With two records in a transaction."""
    one = RawProducer(raw, place[0])
    assert one.init() == "none"
    assert one.add(place) == "none"
    assert one.produce(place, b"1", b"2") == "none"
    return one


def test_java_describes_a_transaction(java: AgentClient, ongoing: RawProducer, place: Place) -> None:
    found = java.call("describe_transaction", transactional_id=ongoing.transactional_id)
    assert found["coordinator"] >= 0
    expected: dict[str, Any] = {
        "state": "Ongoing",
        "producer_id": ongoing.producer_id,
        "epoch": ongoing.producer_epoch,
        "timeout_ms": 900_000,
        "started": True,
        "places": [f"{place[0]}-0"],
    }
    assert found == expected | {"coordinator": found["coordinator"]}
    ongoing.finish(True)
    found = java.call("describe_transaction", transactional_id=ongoing.transactional_id)
    assert (found["state"], found["places"]) == ("CompleteCommit", [])
    with pytest.raises(AgentError, match="TransactionalIdNotFound"):
        java.call("describe_transaction", transactional_id="nobody")


def test_java_lists_transactions(java: AgentClient, ongoing: RawProducer) -> None:
    mine = [ongoing.transactional_id, ongoing.producer_id, "Ongoing"]
    assert mine in java.call("list_transactions")
    assert mine in java.call("list_transactions", states=["Ongoing", "Empty"])
    assert mine not in java.call("list_transactions", states=["CompleteAbort"])
    assert java.call("list_transactions", producer_ids=[ongoing.producer_id]) == [mine]
    assert java.call("list_transactions", pattern=f"{ongoing.transactional_id}.*") == [mine]
    assert mine in java.call("list_transactions", longer_than_ms=0)
    assert mine not in java.call("list_transactions", longer_than_ms=3_600_000)


def test_java_describes_producers_and_aborts_a_hanging_transaction(
    java: AgentClient, raw: RawClient, ongoing: RawProducer, place: Place
) -> None:
    (found,) = java.call("active_producers", topic=place[0])
    assert found == [ongoing.producer_id, ongoing.producer_epoch, 1, -1, 0]
    java.call(
        "abort_transaction",
        topic=place[0],
        producer_id=ongoing.producer_id,
        epoch=ongoing.producer_epoch,
        coordinator_epoch=0,
    )
    assert ends(raw, place) == [(3, 3)]
    assert java.call("active_producers", topic=place[0])[0][4] == -1


def test_java_fences_producers(java: AgentClient, raw: RawClient, ongoing: RawProducer, place: Place) -> None:
    producer_id, epoch = java.call("fence_producer", transactional_id=ongoing.transactional_id)
    assert producer_id == ongoing.producer_id
    assert epoch > ongoing.producer_epoch
    assert ongoing.produce(place, b"3") == "invalid_producer_epoch"
    assert ongoing.end(True) == "producer_fenced"
    eventually(lambda: ends(raw, place) == [(3, 3)])
    fresh = RawProducer(raw, f"never seen {place[0]}")
    assert java.call("fence_producer", transactional_id=fresh.transactional_id)[1] == 0


@needs_tools
def test_the_transactions_tool(bootstrap: str, raw: RawClient, ongoing: RawProducer, place: Place) -> None:
    server = ("--bootstrap-server", bootstrap)
    said = tool(TRANSACTIONS, *server, "describe", "--transactional-id", ongoing.transactional_id)
    row = next(line for line in said.splitlines() if ongoing.transactional_id in line)
    assert re.search(rf"\s{ongoing.producer_id}\s+{ongoing.producer_epoch}\s+Ongoing\s+900000\s", row), said
    said = tool(TRANSACTIONS, *server, "list")
    assert re.search(rf"{ongoing.transactional_id}\s+\d+\s+{ongoing.producer_id}\s+Ongoing", said)
    said = tool(TRANSACTIONS, *server, "describe-producers", "--topic", place[0], "--partition", "0")
    assert re.search(rf"{ongoing.producer_id}\s+{ongoing.producer_epoch}\s+-1\s+1\s+\d+\s+0", said), said
    tool(TRANSACTIONS, *server, "abort", "--topic", place[0], "--partition", "0", "--start-offset", "0")
    assert ends(raw, place) == [(3, 3)]


@needs_tools
def test_the_producer_perf_tool_in_transactions(bootstrap: str, raw: RawClient, place: Place) -> None:
    said = tool(
        f"{TOOLS}.ProducerPerformance", "--topic", place[0], "--num-records", "2000", "--record-size", "100",
        "--throughput", "-1", "--transactional-id", place[0], "--transaction-duration-ms", "50",
        "--bootstrap-server", bootstrap,
    )  # fmt: skip
    assert "2000 records sent" in said
    ((stable, high_watermark),) = ends(raw, place)
    assert stable == high_watermark > 2000
    assert RawProducer(raw, place[0]).describe()[0] == "CompleteCommit"


EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


@needs_tools
def test_the_dump_tool_reads_what_transactions_leave(tmp_path: Path) -> None:
    broker = start_broker(tmp_path, **{"transaction.state.log.num.partitions": "1"})
    place = ("dumped", 0)
    try:
        create_topic(broker.address, "dumped")
        with RawClient(broker.address) as raw:
            eventually(lambda: ends(raw, place) == [(0, 0)])
            assert group_offset(raw, "dumped-group", place) == -1, "which makes the group coordinator"
            one = RawProducer(raw, "dumped-id")
            assert one.init() == "none"
            for committed in (True, False):
                assert one.add(place) == "none"
                assert one.add_offsets("dumped-group") == "none"
                assert one.produce(place, b"value") == "none"
                assert one.commit_offset("dumped-group", place, 1) == "none"
                one.finish(committed, version=4)
            assert one.produce(place, b"value", version=12) == "none"
            one.finish(True, version=5)
            assert one.init() == "none"
    finally:
        broker.stop()
    folder = Path(broker.log_dir())
    name = f"{TOOLS}.DumpLogSegments"
    log = folder / "__transaction_state-0" / "00000000000000000000.log"
    said = tool(name, "--transaction-log-decoder", "--files", str(log))
    assert '{"type":"0","data":{"transactionalId":"dumped-id"}}' in said
    values = [json.loads(row) for row in re.findall(r"payload: (\{.*\})", said)]
    assert {one["version"] for one in values} == {"1"}
    rows = [one["data"] for one in values]
    assert [
        (
            row["transactionStatus"],
            row["producerEpoch"],
            sorted(one["topic"] for one in row["transactionPartitions"] or ()),
            row["transactionStartTimestampMs"] > 0,
            row.get("clientTransactionVersion", 0),
        )
        for row in rows
    ] == DUMPED
    assert len({row["producerId"] for row in rows}) == 1
    said = tool(name, "--print-data-log", "--files", str(folder / "dumped-0" / log.name))
    assert re.findall(r"endTxnMarker: (\w+)", said) == ["COMMIT", "ABORT", "COMMIT"]
    assert said.count("isTransactional: true") == 6
    said = tool(name, "--files", str(folder / "dumped-0" / "00000000000000000000.txnindex"))
    assert re.search(r"firstOffset: 2 lastOffset: 3 lastStableOffset: 4", said), said
    offsets = [one for one in folder.glob("__consumer_offsets-*/*.log") if one.stat().st_size]
    said = tool(name, "--offsets-decoder", "--files", ",".join(map(str, offsets)))
    assert "dumped-group" in said
    assert re.findall(r"endTxnMarker: (\w+)", said) == ["COMMIT", "ABORT"]


# Status, epoch, topics, whether it has begun, and the version of transactions that the client speaks.
BOTH = ["__consumer_offsets", "dumped"]
DUMPED: list[tuple[int, int, list[str], bool, int]] = [
    (EMPTY, 0, [], False, 0),
    (ONGOING, 0, ["dumped"], True, 0),
    (ONGOING, 0, BOTH, True, 0),
    (PREPARE_COMMIT, 0, BOTH, True, 0),
    (COMPLETE_COMMIT, 0, [], True, 0),
    (ONGOING, 0, ["dumped"], True, 0),
    (ONGOING, 0, BOTH, True, 0),
    (PREPARE_ABORT, 0, BOTH, True, 0),
    (COMPLETE_ABORT, 0, [], True, 0),
    (ONGOING, 0, ["dumped"], True, 2),
    (PREPARE_COMMIT, 1, ["dumped"], True, 2),
    (COMPLETE_COMMIT, 1, [], True, 2),
    (EMPTY, 2, [], False, 2),
]


@pytest.mark.parametrize("name", ["confluent", "java"])
def test_the_broker_stops_and_starts_in_the_middle_of_a_transaction(
    name: str, restarting: Any, java_of: Any
) -> None:
    """A clean stop: the producer goes on, what it then commits is whole, and offsets go with it."""
    broker = restarting
    library = ConfluentTransactions(broker.address) if name == "confluent" else AgentTransactions(java_of)
    places = [(f"restarted-{name}", partition) for partition in range(2)]
    create_topic(broker.address, places[0][0], 2)
    one, fenced = library.producer(f"{name}-id"), library.producer(f"{name}-lost")
    try:
        one.init()
        fenced.init()
        fenced.begin()
        fenced.send(places[0], b"lost")
        fenced.flush()
        one.begin()
        one.send(places[0], b"before")
        one.send_offsets(f"{name}-group", {places[0]: 5})
        one.flush()
        broker.stop()
        broker.start()
        one.send(places[0], b"after")
        one.send(places[1], b"after")
        one.commit()
        with RawClient(broker.address) as raw:
            assert RawProducer(raw, f"{name}-lost").describe()[0] == "Ongoing", "nobody ended it"
            assert ends(raw, places[0])[0][0] == 0
            again = library.producer(f"{name}-lost")
            again.init()
            again.begin()
            again.send(places[1], b"again")
            again.commit()
            again.close()
            with pytest.raises(Failed) as failure:
                fenced.commit()
            assert failure.value.fenced
            eventually(lambda: all(stable == high for stable, high in ends(raw, *places)))
            plain = RawProducer(raw, f"{name}-last")
            plain.init()
            for place in places:
                assert plain.add(place) == "none"
                assert plain.produce(place, b"the last record") == "none"
            plain.finish(True)
        assert library.read(places, committed=True) == {
            places[0]: [b"before", b"after"],
            places[1]: [b"after", b"again"],
        }
    finally:
        one.close()
        fenced.close()


@pytest.fixture(scope="module")
def restarting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker that these tests may stop."""
    broker = start_broker(tmp_path_factory.mktemp("restarting"))
    yield broker
    broker.stop()


@pytest.fixture
def java_of(request: pytest.FixtureRequest, restarting: Any, tmp_path: Path) -> Iterator[AgentClient | None]:
    """The Java client of that broker, where the test is Java's."""
    if "java" not in request.node.name:
        yield None
        return
    client = make_client("java", restarting.address, tmp_path)
    assert isinstance(client, AgentClient)
    yield client
    client.close()
