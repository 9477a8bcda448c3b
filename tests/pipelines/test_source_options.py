"""The options of source and sink, and the arithmetic of offsets: no broker, no Spark session."""

from __future__ import annotations

import json
import random
import warnings
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed (pip install 'moldau[spark]')")

from pyspark.sql.types import StringType, StructType

from moldau.client.cluster import Cluster
from moldau.client.options import parse_options as check_client_options
from pyspark_moldau.behind_latest import offsets_behind_latest
from pyspark_moldau.data_loss import LossReport
from pyspark_moldau.document import document
from pyspark_moldau.errors import DataLossError, OptionError
from pyspark_moldau.offsets import from_json, to_json
from pyspark_moldau.option_rows import BATCH, STREAM
from pyspark_moldau.options import TABLE, parse_options
from pyspark_moldau.ranges import Range, limited, shared, split
from pyspark_moldau.sink_options import check_columns, parse_sink_options
from pyspark_moldau.topic_selection import Assigned, AtOffsets, AtTime, AtTimes, Everywhere, Matching, Named

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "t"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "h:1"}, "which topics\\? Give one of the options subscribe"),
        ({**NEEDED, "assign": '{"t": [0]}'}, "only one of the options subscribe and assign"),
        ({**NEEDED, "subscribe": " , "}, "subscribe names no topic"),
        (
            {**NEEDED, "startingOffset": "earliest"},
            "no option 'startingoffset' .* did you mean startingOffsets\\?",
        ),
        ({**NEEDED, "bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers\\?"),
        ({**NEEDED, "topic": "t"}, "no option 'topic' for reading"),
        ({**NEEDED, "startingOffsets": "first"}, "startingOffsets must be earliest, latest or JSON"),
        ({**NEEDED, "startingOffsets": '{"t": '}, "startingOffsets is not JSON"),
        ({**NEEDED, "startingOffsets": '{"t": 5}'}, "'t' needs a number for each partition"),
        ({**NEEDED, "startingOffsets": '{"t": {"x": 5}}'}, "'x' of topic 't' is no partition number"),
        ({**NEEDED, "startingOffsets": '{"t": {"0": -3}}'}, "-3 for partition 0 of topic 't'"),
        ({**NEEDED, "startingOffsets": '{"t": {"0": true}}'}, "true for partition 0"),
        ({**NEEDED, "startingOffsets": "{}"}, "names no partition"),
        ({**NEEDED, "startingTimestamp": "yesterday"}, "startingTimestamp must be a time in ms"),
        ({**NEEDED, "startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "-1 for partition 0"),
        ({**NEEDED, "startingOffsetsByTimestampStrategy": "earliest"}, "must be error or latest"),
        ({**NEEDED, "endingOffsets": "earliest"}, "endingOffsets must be latest or JSON"),
        ({**NEEDED, "endingOffsets": '{"t": {"0": -2}}'}, "can not be -2"),
        ({**NEEDED, "failOnDataLoss": "no"}, "failOnDataLoss must be true or false, not 'no'"),
        ({**NEEDED, "minPartitions": "0"}, "minPartitions must be a whole number from 1 up"),
        ({**NEEDED, "maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger must be a whole number"),
        ({**NEEDED, "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"}, "is greater than"),
        ({**NEEDED, "maxTriggerDelay": "soon"}, "maxTriggerDelay must be a time"),
        ({**NEEDED, "kafka.auto.offset.reset": "earliest"}, "not supported: use startingOffsets"),
        ({**NEEDED, "kafka.enable.auto.commit": "true"}, "not supported"),
        ({**NEEDED, "kafka.key.deserializer": "x"}, "not supported: keys come as bytes"),
        ({**NEEDED, "kafka.isolation.level": "serializable"}, "must be read_committed or read_uncommitted"),
        ({**NEEDED, "kafka.group.id": "a", "groupId": "b"}, "mean the same"),
        ({**NEEDED, "kafka.request.timeout.ms": "soon"}, "kafka.request.timeout.ms must be a whole number"),
        ({"kafka.bootstrap.servers": "h:1", "assign": "t"}, "assign is not JSON"),
        ({"kafka.bootstrap.servers": "h:1", "assign": '{"t": 1}'}, "needs a list of partition numbers"),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, "is no regular expression"),
    ],
)
def test_wrong_options(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse_options(options)


@pytest.mark.parametrize(
    ("query", "options", "sentence"),
    [
        (STREAM, {"endingOffsets": "latest"}, "endingOffsets has no meaning in a streaming query"),
        (BATCH, {"startingOffsets": "latest"}, "nothing to read"),
        (BATCH, {"startingOffsets": '{"t": {"0": -1}}'}, "nothing to read"),
    ],
)
def test_options_of_the_other_kind_of_query(query: str, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        parse_options({**NEEDED, **options}, query)


def test_choices() -> None:
    def starting(**options: str) -> object:
        return parse_options({**NEEDED, **options}).starting

    assert parse_options(NEEDED, STREAM).starting == Everywhere(-1)
    assert parse_options(NEEDED, BATCH).starting == Everywhere(-2)
    assert starting(startingOffsets='{"t":{"0":7}}') == AtOffsets({("t", 0): 7})
    assert starting(startingOffsetsByTimestamp='{"t":{"0":7}}') == AtTimes({("t", 0): 7})
    # The connector's precedence: one time before times by partition before offsets.
    assert starting(
        startingTimestamp="5", startingOffsetsByTimestamp='{"t":{"0":7}}', startingOffsets="earliest"
    ) == AtTime(5)
    servers = {"kafka.bootstrap.servers": "h:1"}
    assert parse_options({**servers, "subscribe": "b, a,b"}).topics == Named(("a", "b"))
    assert parse_options({**servers, "assign": '{"b":[1,0],"a":[2]}'}).topics == Assigned(
        (("a", 2), ("b", 0), ("b", 1))
    )
    matching = parse_options({**servers, "SUBSCRIBEPATTERN": "a.*"}).topics
    assert isinstance(matching, Matching)
    assert matching.takes("ab")
    assert not matching.takes("ba")


def test_defaults_and_client_settings() -> None:
    options = parse_options({**NEEDED, "kafka.group.id": "g", "maxTriggerDelay": "500ms"})
    assert (options.read_committed, options.fail_on_data_loss, options.include_headers) == (True, True, False)
    assert options.group_id == "g"
    assert options.max_trigger_delay_seconds == 0.5
    assert options.client_options == {"default.api.timeout.ms": "120000"}
    assert not parse_options({**NEEDED, "kafka.isolation.level": "read_uncommitted"}).read_committed


def test_every_option_says_what_it_means() -> None:
    for row in TABLE:
        assert row.meaning.endswith("."), row.name


def test_the_documentation_is_up_to_date(pytestconfig: pytest.Config) -> None:
    page = pytestconfig.rootpath / "docs" / "spark-source.md"
    assert page.read_text() == document(), "run: python -m pyspark_moldau.document > docs/spark-source.md"


def test_offsets_of_one_place_have_one_text() -> None:
    offsets = {("b", 0): 1, ("a", 10): 2, ("a", 2): 3}
    assert list(to_json(offsets)) == ["a", "b"]
    assert list(to_json(offsets)["a"]) == ["2", "10"]
    assert from_json(to_json(offsets)) == offsets


def test_a_limit_is_shared_in_proportion() -> None:
    start = {("t", 0): 100, ("t", 1): 0, ("t", 2): 50}
    latest = {("t", 0): 1100, ("t", 1): 10, ("t", 2): 50}
    assert limited(start, latest, 101) == {("t", 0): 200, ("t", 1): 1, ("t", 2): 50}
    assert limited(start, latest, 1010) == latest
    assert limited(start, latest, 1)[("t", 1)] == 1, "no partition starves"


def test_a_limit_never_goes_too_far_nor_stands_still() -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    for _ in range(300):
        parts = [("t", index) for index in range(dice.randint(1, 9))]
        start = {one: dice.choice([0, dice.randrange(2**62)]) for one in parts}
        latest = {
            one: start[one] + dice.choice([0, 1, dice.randrange(1000), dice.randrange(2**61)])
            for one in parts
        }
        most = dice.choice([1, dice.randrange(1, 2000)])
        end = limited(start, latest, most)
        read = sum(end[one] - start[one] for one in parts)
        assert all(start[one] <= end[one] <= latest[one] for one in parts), f"seed {seed}"
        assert read <= most + len(parts), f"seed {seed}"
        assert read > 0 or latest == start, f"seed {seed}"


def test_splitting_loses_nothing_and_gives_about_the_number_asked_for() -> None:
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    for _ in range(300):
        ranges = [
            Range("t", index, 5, 5 + dice.choice([0, 1, dice.randrange(1, 5000)])) for index in range(5)
        ]
        tasks, most = dice.choice([None, dice.randrange(1, 40)]), dice.choice([None, dice.randrange(1, 1000)])
        pieces = split(ranges, tasks, most)
        offsets = [(one.partition, offset) for one in pieces for offset in range(one.start, one.end)]
        assert offsets == [(one.partition, offset) for one in ranges for offset in range(one.start, one.end)]
        assert all(one.size > 0 for one in pieces), f"seed {seed}"
        if most is not None:
            assert all(one.size <= most for one in pieces), f"seed {seed}"
        if tasks is not None and most is None and all(one.size > 40 for one in ranges):
            assert abs(len(pieces) - tasks) <= len(ranges), f"seed {seed}"


def test_small_ranges_share_a_task() -> None:
    small = [Range("t", index, 0, 10) for index in range(5)]
    large = Range("t", 9, 0, 5000)
    assert shared([*small[:2], large, *small[2:]], small=30) == [(large,), tuple(small[:3]), tuple(small[3:])]


def test_losses_stop_the_query_or_are_told_once() -> None:
    told: list[str] = []
    with pytest.raises(DataLossError, match=r"gone\. The option failOnDataLoss=false"):
        LossReport(fail=True, tell=told.append).report("gone")
    assert told == []
    lenient = LossReport(fail=False, tell=told.append)
    lenient.report("gone")
    lenient.report("gone")
    assert told == ["gone; the query goes on without them (failOnDataLoss=false)"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kafka.partitioner": "consistent_random"}, "knows only the default one of Kafka's own clients"),
        ({"kafka.partitioner.class": "org.example.ByRegion"}, "give a column named partition"),
        ({"kafka.sasl.username": "ann"}, "no effect without kafka.security.protocol"),
    ],
)
def test_writes_refuse_what_they_would_ignore(options: dict[str, str], sentence: str) -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
    assert parse_sink_options({**given, "kafka.partitioner": "murmur2_random"}, streaming=True)
    with pytest.raises(OptionError, match=sentence):
        parse_sink_options({**given, **options}, streaming=True)


@pytest.mark.parametrize(
    ("kafka", "warned"),
    [
        ({"linger.ms": "5", "acks": "all", "compression.type": "lz4"}, ["linger.ms"]),
        ({"buffer.memory": "1", "retries": "1"}, ["buffer.memory", "retries"]),
        ({"fetch.max.bytes": "1", "isolation.level": "x"}, ["fetch.max.bytes", "isolation.level"]),
        ({"enable.idempotence": "true", "batch.size": "1", "delivery.timeout.ms": "1"}, []),
        ({"enable.idempotence": "false"}, ["enable.idempotence"]),
        ({"nonsense": "1"}, ["nonsense"]),
    ],
)
def test_settings_of_a_write_that_have_no_effect_are_warned_of(
    kafka: dict[str, str], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.client.options._warned", set())
    given = {"kafka.bootstrap.servers": "b:1", "topic": "t"} | {
        f"kafka.{name}": kafka[name] for name in kafka
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = parse_sink_options(given, streaming=True)
        Cluster(options.bootstrap_servers, options.client_options)  # as the sink does, in the same process
    said = [str(one.message) for one in caught]
    assert [text.split(" has no effect ")[0] for text in said] == [
        f"the option kafka.{name}" for name in warned
    ]


@pytest.mark.parametrize("name", ["max.poll.records", "session.timeout.ms", "fetch.min.bytes", "linger.ms"])
def test_settings_of_a_read_that_have_no_effect_are_warned_of(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.client.options._warned", set())
    with pytest.warns(UserWarning, match=f"the option kafka.{name} has no effect"):
        parse_options({**NEEDED, f"kafka.{name}": "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse_options({**NEEDED, "kafka.fetch.max.bytes": "1", "kafka.group.id": "g", "kafka.client.id": "c"})


def test_offsets_behind_latest_are_those_of_sparks_connector() -> None:
    end, latest = {"t": {"0": 10, "1": 4}, "u": {"0": 7}}, {"t": {"0": 15, "1": 4, "2": 3}, "u": {"0": 6}}
    expected = {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 5, "avgOffsetsBehindLatest": 2.0}
    assert offsets_behind_latest({"endOffset": end, "latestOffset": latest}) == expected
    progress = SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest))
    assert offsets_behind_latest(progress) == expected
    for nothing in (None, "null", "12", "{", {}):
        assert offsets_behind_latest({"endOffset": end, "latestOffset": nothing}) == {}
    assert offsets_behind_latest({"endOffset": None, "latestOffset": latest}) == {}


def test_what_differs_most_is_said_first() -> None:
    page = document()
    differs = page[page.index("## What differs") : page.index("## Options of reading")]
    words = ['.mode("append")', "`kafka.acks`", "`kafka.partitioner.class`", "`continuous`", "`lastProgress`"]
    places = [differs.index(word) for word in [*words, "An unknown option"]]
    assert places == sorted(places)


def test_passwords_keep_their_blanks_and_are_not_shown() -> None:
    given = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "kafka.security.protocol": "SASL_SSL"}
    given |= {"kafka.sasl.username": " ann ", "kafka.sasl.password": " secret "}
    options = parse_options(given)
    assert options.client_options["sasl.username"] == "ann"
    assert options.client_options["sasl.password"] == " secret "
    assert "secret" not in repr(options) + repr(check_client_options(options.client_options))


def test_columns_that_differ_in_case_only() -> None:
    columns = StructType().add("value", StringType()).add("VALUE", StringType())
    options = parse_sink_options({"kafka.bootstrap.servers": "b:1", "topic": "t"}, streaming=True)
    with pytest.raises(OptionError, match="two columns have the same name but for its case: value, VALUE"):
        check_columns(columns, options)
