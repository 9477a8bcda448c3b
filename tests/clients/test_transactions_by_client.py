"""Transactions as five client libraries run them: what a consumer sees, who is fenced, what is taken back.

librdkafka, kafka-python, aiokafka, KafkaJS and Java before 4.0 speak transactions v1, the Java client of
today v2 (KIP-890). Every scenario is written once. What a consumer must not see is asked up to a last record
behind it, so that no test waits for something not to come.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest
from client_agents import AgentClient
from client_aiokafka import AiokafkaClient
from client_confluent import create_topic
from client_model import CODECS, Client, Place, eventually
from client_raw_transactions import RawProducer, active_producers, ends, group_offset
from client_transactions import (
    LAST,
    NAMES,
    AgentTransactions,
    AiokafkaTransactions,
    ConfluentTransactions,
    Failed,
    KafkaPythonTransactions,
    Transactional,
    TransactionalClient,
)
from confluent_kafka import Producer
from conftest import OLD_JAVA
from raw_client import RawClient

Open = Callable[..., Transactional]
PARTITIONS = 2


def make_library(name: str, bootstrap: str, client_by_name: Callable[[str], Client]) -> TransactionalClient:
    """A library by its name; skips where it cannot run here."""
    if name == "confluent":
        return ConfluentTransactions(bootstrap)
    if name == "kafka-python":
        return KafkaPythonTransactions(bootstrap)
    client = client_by_name(name)
    if isinstance(client, AiokafkaClient):
        return AiokafkaTransactions(client)
    assert isinstance(client, AgentClient)
    return AgentTransactions(client)


@pytest.fixture(params=[*NAMES, OLD_JAVA])
def library(
    request: pytest.FixtureRequest, bootstrap: str, client_by_name: Callable[[str], Client]
) -> TransactionalClient:
    """Each library in turn."""
    return make_library(request.param, bootstrap, client_by_name)


@pytest.fixture
def opened(library: TransactionalClient) -> Iterator[Open]:
    """Opens producers, already initialised, and closes them after the test."""
    with contextlib.ExitStack() as stack:

        def open_one(transactional_id: str, **settings: object) -> Transactional:
            one = library.producer(transactional_id, **settings)  # type: ignore[arg-type]
            stack.callback(one.close)
            one.init()
            return one

        yield open_one


@pytest.fixture(scope="module")
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as one:
        yield one


@pytest.fixture
def places(bootstrap: str, raw: RawClient, topic: str) -> list[Place]:
    """Two partitions of each of two topics."""
    return [place for name in (topic, f"{topic}-b") for place in make_places(bootstrap, raw, name)]


def make_places(bootstrap: str, raw: RawClient, topic: str, **configs: str) -> list[Place]:
    create_topic(bootstrap, topic, PARTITIONS, **configs)
    made = [(topic, partition) for partition in range(PARTITIONS)]
    eventually(lambda: ends(raw, *made) == [(0, 0)] * PARTITIONS)
    return made


def write(bootstrap: str, places: list[Place], *values: bytes) -> None:
    """Records outside any transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    for topic, partition in places:
        for value in values:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(20) == 0


def of_each(places: list[Place], *values: bytes) -> dict[Place, list[bytes]]:
    """The same values in each partition."""
    return {place: list(values) for place in places}


def test_a_commit_is_seen_whole_and_not_before(
    library: TransactionalClient,
    opened: Open,
    bootstrap: str,
    raw: RawClient,
    places: list[Place],
    topic: str,
) -> None:
    one = opened(topic)
    one.begin()
    for place in places:
        one.send(place, b"1", b"2")
    one.flush()
    write(bootstrap, places, b"plain")
    # Everything is stored, and nothing of it, nor what came behind it, is stable yet.
    assert ends(raw, *places) == [(0, 3)] * len(places)
    assert sorted(RawProducer(raw, topic).describe()[3]) == sorted(places)
    one.commit()
    write(bootstrap, places, LAST)
    eventually(lambda: ends(raw, *places) == [(5, 5)] * len(places))
    assert library.read(places, committed=True) == of_each(places, b"1", b"2", b"plain")


def test_an_abort_is_never_seen(
    library: TransactionalClient,
    opened: Open,
    bootstrap: str,
    raw: RawClient,
    places: list[Place],
    topic: str,
) -> None:
    one = opened(topic)
    for number, committed in enumerate([False, True, False, False, True]):
        one.begin()
        for place in places:
            one.send(place, b"%d" % number)
        one.flush()
        if committed:
            one.commit()
        else:
            one.abort()
    write(bootstrap, places, LAST)
    assert library.read(places, committed=True) == of_each(places, b"1", b"4")
    assert library.read(places, committed=False) == of_each(places, b"0", b"1", b"2", b"3", b"4")
    # A marker behind each of five transactions, and the last record.
    assert ends(raw, *places) == [(11, 11)] * len(places)


def test_offsets_are_the_transactions(
    opened: Open, raw: RawClient, places: list[Place], topic: str, group: str
) -> None:
    one = opened(topic)
    for offset, committed, expected in ((3, False, -1), (4, True, 4), (9, False, 4), (7, True, 7)):
        before = group_offset(raw, group, places[0])
        one.begin()
        one.send(places[1], b"x")
        one.send_offsets(group, {places[0]: offset})
        assert group_offset(raw, group, places[0]) == before
        # KIP-447: who asks for stable offsets is told to wait.
        assert group_offset(raw, group, places[0], stable=True) == "unstable_offset_commit"
        if committed:
            one.commit()
        else:
            one.abort()
        eventually(lambda: group_offset(raw, group, places[0], stable=True) != "unstable_offset_commit")
        assert group_offset(raw, group, places[0]) == expected


def test_consume_transform_produce(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str, group: str
) -> None:
    run_transform(library, opened, bootstrap, raw, topic, group)


@pytest.mark.parametrize("library", ["confluent", "java"], indirect=True)
def test_consume_transform_produce_in_a_new_protocol_group(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str, group: str
) -> None:
    run_transform(library, opened, bootstrap, raw, topic, group, **{"group.protocol": "consumer"})


def run_transform(
    library: TransactionalClient,
    opened: Open,
    bootstrap: str,
    raw: RawClient,
    topic: str,
    group: str,
    **config: str,
) -> None:
    """Exactly once through two partitions, although every third transaction is aborted."""
    source, sink = make_places(bootstrap, raw, topic), make_places(bootstrap, raw, f"{topic}-sink")
    values = [b"%d" % number for number in range(30)]
    write(bootstrap, source, *values)
    transactions = opened(topic).transform(topic, f"{topic}-sink", group, 60, **config)
    assert transactions >= 2, "at least one transaction had to be aborted"
    write(bootstrap, sink, LAST)
    done = [value + b"'" for value in values]
    assert library.read(sink, committed=True) == of_each(sink, *done)
    for place in source:
        eventually(lambda place=place: group_offset(raw, group, place, stable=True) == 30)


def test_the_older_of_two_producers_is_fenced(
    library: TransactionalClient,
    opened: Open,
    bootstrap: str,
    raw: RawClient,
    places: list[Place],
    topic: str,
) -> None:
    older = opened(topic)
    older.begin()
    older.send(places[0], b"older")
    older.flush()
    newer = opened(topic)
    newer.begin()
    newer.send(places[0], b"newer")
    newer.flush()

    def goes_on() -> None:
        older.send(places[1], b"zombie")
        older.flush()
        older.commit()

    with pytest.raises(Failed) as failure:
        goes_on()
    assert failure.value.fenced, failure.value
    assert active_producers(raw, places[1]) == [], "nothing of the fenced one was stored"
    newer.commit()
    # A third one takes over again, and the fenced one stays fenced.
    third = opened(topic)
    third.begin()
    third.send(places[0], b"third")
    with contextlib.suppress(Failed):
        older.abort()
    third.commit()
    write(bootstrap, places, LAST)
    seen = library.read(places, committed=True)
    assert seen == of_each(places) | {places[0]: [b"newer", b"third"]}


def test_a_transaction_past_its_timeout_is_aborted_and_the_producer_learns_it(
    library: TransactionalClient,
    opened: Open,
    bootstrap: str,
    raw: RawClient,
    places: list[Place],
    topic: str,
) -> None:
    one = opened(topic, timeout_ms=1000)
    one.begin()
    one.send(places[0], b"too slow")
    one.flush()
    eventually(lambda: RawProducer(raw, topic).describe()[0] == "CompleteAbort")
    eventually(lambda: ends(raw, places[0])[0] == (2, 2))
    with pytest.raises(Failed):
        one.commit()
    again = opened(topic)
    again.begin()
    again.send(places[0], b"in time")
    again.commit()
    write(bootstrap, places, LAST)
    assert library.read(places, committed=True) == of_each(places) | {places[0]: [b"in time"]}


def test_many_transactions_in_a_row(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str
) -> None:
    made = make_places(bootstrap, raw, topic)
    one = opened(topic)
    for number in range(40):
        one.begin()
        one.send(made[number % 2], b"%d" % number)
        if number % 4 == 3:
            one.flush()  # librdkafka would otherwise purge it unsent
            one.abort()
        else:
            one.commit()
    write(bootstrap, made, LAST)
    numbers = [number for number in range(40) if number % 4 != 3]
    expected = {place: [b"%d" % n for n in numbers if n % 2 == place[1]] for place in made}
    assert library.read(made, committed=True) == expected
    # One producer id all along; with transactions v2 every transaction has an epoch of its own.
    assert len({row[0] for place in made for row in active_producers(raw, place) if row[0] >= 0}) == 1
    assert RawProducer(raw, topic).describe()[2] == (40 if library.name == "java" else 0)


def test_every_codec_in_transactions(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str
) -> None:
    made = make_places(bootstrap, raw, topic)
    for codec in CODECS:
        one = opened(f"{topic}-{codec}", codec=codec)
        for committed in (True, False):
            one.begin()
            one.send(made[0], *[b"%s %d " % (codec.encode(), number) + b"x" * 200 for number in range(20)])
            one.flush()
            if committed:
                one.commit()
            else:
                one.abort()
    write(bootstrap, made, LAST)
    seen = library.read(made, committed=True)[made[0]]
    expected = [f"{codec} {number}" for codec in CODECS for number in range(20)]
    assert [value.decode().rstrip("x ") for value in seen] == expected


def test_a_transaction_over_several_segments(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str
) -> None:
    made = make_places(bootstrap, raw, topic, segment_bytes="1048576")
    lost, kept = opened(f"{topic}-lost"), opened(f"{topic}-kept")
    lost.begin()
    kept.begin()
    big = os.urandom(100_000)
    for number in range(15):
        lost.send(made[0], b"lost %d " % number + big)
        lost.flush()
        kept.send(made[0], b"kept %d " % number + big)
        kept.flush()
    kept.commit()
    assert ends(raw, made[0])[0][0] == 0, "the other transaction still holds readers back"
    lost.abort()
    write(bootstrap, made, LAST)
    seen = [value.split(b" ")[:2] for value in library.read(made, committed=True)[made[0]]]
    assert seen == [[b"kept", b"%d" % number] for number in range(15)]
    assert len(library.read(made, committed=False)[made[0]]) == 30


def test_plain_and_transactional_producers_on_one_partition(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str
) -> None:
    made = make_places(bootstrap, raw, topic)
    one, other = opened(topic), opened(f"{topic}-other")
    one.begin()
    other.begin()
    write(bootstrap, made[:1], b"plain 1")
    one.send(made[0], b"one")
    one.flush()
    write(bootstrap, made[:1], b"plain 2")
    other.send(made[0], b"other")
    other.flush()
    write(bootstrap, made[:1], b"plain 3")
    # Readers stand before the first open transaction, and move on from one to the next.
    assert ends(raw, made[0]) == [(1, 5)]
    one.abort()
    eventually(lambda: ends(raw, made[0]) == [(3, 6)])
    other.commit()
    write(bootstrap, made, LAST)
    assert library.read(made, committed=True)[made[0]] == [b"plain 1", b"plain 2", b"other", b"plain 3"]


@pytest.mark.parametrize("library", ["confluent", "java", "kafka-python"], indirect=True)
def test_a_record_that_is_refused_spoils_the_transaction_and_abort_makes_good(
    library: TransactionalClient, opened: Open, bootstrap: str, raw: RawClient, topic: str
) -> None:
    made = make_places(bootstrap, raw, topic, max_message_bytes="10000")
    one = opened(topic)
    one.begin()
    one.send(made[1], b"goes under with the other")
    one.flush()

    def too_much() -> None:
        one.send(made[0], os.urandom(20_000))
        one.flush()
        one.commit()

    with pytest.raises(Failed) as failure:
        too_much()
    assert not failure.value.fenced, failure.value
    one.abort()
    one.begin()
    one.send(made[1], b"small")
    one.commit()
    write(bootstrap, made, LAST)
    assert library.read(made, committed=True) == {made[0]: [], made[1]: [b"small"]}
