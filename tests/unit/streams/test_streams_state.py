"""Checkpoints, drivers, names, reports and failures of streams: all that needs no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.streams import App, AppError, CheckpointRefused, Fenced, StreamsError
from moldau.streams.checkpoints import Owner, Position, checkpoints_in, claim, position_of
from moldau.streams.failures import Cure, cure_of, sentence
from moldau.streams.folder import Folder
from moldau.streams.lease import Lease, driver_of
from moldau.streams.loading import load_app
from moldau.streams.names import app_and_flow, checked_name, group_of, name_from_topic
from moldau.streams.progress import FlowNumbers, lag_of
from moldau.streams.sql import statements

OWNER = Owner("delays", "late", ("flights",), (), "late-flights", "cluster-1", "127.0.0.1:9092")


def spark_checkpoint(folder: Folder, done: int, begun: int) -> None:
    """What Spark leaves after `done` micro-batches and the beginning of another."""
    for batch in range(begun + 1):
        lines = [
            "v1",
            '{"batchWatermarkMs":1500}',
            json.dumps({"flights": {"0": 10 * batch, "1": batch}}),
            "-",
        ]
        (folder / "offsets").write(str(batch), "\n".join(lines))
        if batch <= done:
            (folder / "commits").write(str(batch), 'v1\n{"nextBatchWatermarkMs":0}')


def test_a_checkpoint_says_whose_it_is_and_how_far(tmp_path: Path) -> None:
    root = Folder(tmp_path / "checkpoints")
    folder = root / "delays" / "late"
    claim(folder, OWNER)
    assert position_of(folder) == Position()
    spark_checkpoint(folder, done=1, begun=2)
    claim(folder, OWNER)
    assert [(str(found), owner) for found, owner in checkpoints_in(root)] == [(str(folder), OWNER)]
    assert position_of(folder) == Position(1, 2, 1500, {("flights", 0): 10, ("flights", 1): 1})
    assert checkpoints_in(root / "nothing") == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"app": "other"}, "belongs to flow late of app delays, and not to flow late of app other"),
        ({"flow": "early"}, "and not to flow early of app delays"),
        ({"streams": ("trains",)}, "was made reading flights, and flow late reads trains now"),
        ({"cluster_id": "cluster-2"}, "was made with another cluster"),
    ],
)
def test_a_strangers_checkpoint_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    folder = Folder(tmp_path)
    claim(folder, OWNER)
    before = folder.read("moldau.json")
    with pytest.raises(CheckpointRefused, match=said):
        claim(folder, Owner(**{**OWNER.__dict__, **changes}))
    assert folder.read("moldau.json") == before


def test_a_checkpoint_of_unknown_origin_is_refused(tmp_path: Path) -> None:
    spark_checkpoint(Folder(tmp_path / "a"), 0, 0)
    with pytest.raises(CheckpointRefused, match="something else, and no flow's of Moldau"):
        claim(Folder(tmp_path / "a"), OWNER)
    Folder(tmp_path / "b").write("moldau.json", '{"app": "delays"}')
    with pytest.raises(CheckpointRefused, match="is damaged"):
        claim(Folder(tmp_path / "b"), OWNER)


def test_the_newer_driver_takes_over_and_the_older_one_is_told(tmp_path: Path) -> None:
    folder, now = Folder(tmp_path / "app"), 100.0
    older = Lease(folder, "delays", clock=lambda: now)
    assert older.take() is None
    older.renew()
    newer = Lease(folder, "delays", clock=lambda: now)
    before = newer.take()
    assert before is not None
    assert before.started == 100.0
    with pytest.raises(Fenced, match=r"another driver has taken over app delays \(process \d+ on "):
        older.renew()
    older.leave()  # the newer one's file stays
    newer.check()
    newer.leave()
    assert driver_of(folder) is None


def test_a_driver_that_was_not_seen_for_long_does_not_count_as_running(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    Lease(folder, "delays", clock=lambda: 100.0).take()
    assert Lease(folder, "delays", clock=lambda: 111.0).take() is None


def test_names() -> None:
    assert app_and_flow(group_of("delays", "late_flights")) == ("delays", "late_flights")
    for stranger in ("delays.late", "streams.a.b.c", "streams.a b.c", "billing"):
        assert app_and_flow(stranger) is None
    assert name_from_topic("a.b-c") == "a-b-c"
    for wrong in ("", "a.b", "a/b", "x" * 81):
        with pytest.raises(AppError, match="cannot be the name of an app"):
            checked_name(wrong, "an app")


def report(batch: int, rows: int, out: int | None, ends: str, latest: str, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        runId="run",
        batchId=batch,
        durationMs={"addBatch": 1, "triggerExecution": 40},
        numInputRows=rows,
        processedRowsPerSecond=7.0,
        eventTime={"watermark": "2013"},
        stateOperators=[SimpleNamespace(numRowsDroppedByWatermark=2, numRowsTotal=5)],
        observedMetrics={} if out is None else {"moldau_out": {"rows": out}},
        sources=[SimpleNamespace(endOffset=ends, latestOffset=latest)],
    )


def test_reports_add_up_and_count_once() -> None:
    numbers = FlowNumbers()
    first = report(0, 10, 4, '{"t": {"0": 10}}', '{"t": {"0": 15, "1": 3}}')
    assert numbers.add(first)
    assert not numbers.add(first)
    assert numbers.add(report(1, 5, None, '{"t": {"0": 15, "1": 3}}', '{"t": {"0": 15, "1": 3}}'))
    assert (numbers.rows_in, numbers.rows_out, numbers.batches, numbers.lag) == (15, 4, 2, 0)
    assert (numbers.batch_ms, numbers.watermark, numbers.rows_dropped_late, numbers.state_rows) == (
        40,
        "2013",
        4,
        5,
    )
    assert lag_of('{"t": {"0": 10}}', '{"t": {"0": 15, "1": 3}}') == 8
    assert lag_of(None, '{"t": {"0": 15}}') is None
    assert lag_of("12", "15") is None


FAILURE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "app.py", line 3, in <lambda>
{error}
	at org.apache.spark.Foo(Foo.scala:1)
"""


@pytest.mark.parametrize(
    ("error", "said", "cure"),
    [
        ("ZeroDivisionError: division by zero", "ZeroDivisionError: division by zero", Cure.AGAIN),
        ("moldau.client.errors.ClusterTimeout: cannot read flights", "cannot read flights", Cure.WAIT),
        ("pyspark_moldau.errors.FencedError: another took over", "another took over", Cure.NONE),
    ],
)
def test_a_failure_is_a_sentence(error: str, said: str, cure: Cure) -> None:
    text = FAILURE.format(error=error)
    assert sentence(text) == said
    assert cure_of(text) is cure


def test_a_failure_of_sparks_own_is_a_sentence_too() -> None:
    assert sentence(StreamsError("no broker answers")) == "no broker answers"
    assert (
        sentence("[STREAM_FAILED] Query [id = 1] terminated with exception: out of disk\nmore")
        == "out of disk"
    )
    assert sentence(KeyError()) == "KeyError"


def test_statements_of_a_text() -> None:
    text = "-- a; comment\nCREATE 'x;''y' `;`; /* b; */ SELECT 1 - 2 / 3;;\n"
    assert list(statements(text)) == ["CREATE 'x;''y' `;`", "SELECT 1 - 2 / 3"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1", r"statement 1: 'SELECT 1' is not CREATE STREAM\|TABLE"),
        ("CREATE STREAM a", "stream a: it needs its columns in parentheses"),
        ("CREATE TABLE t AS SELECT 1", "table t: table t needs a key"),
        ("CREATE STREAM a WITH (key 'b') AS SELECT 1", "is not of the form option = 'value'"),
        ("CREATE STREAM a WITH (kez = 'b') AS SELECT 1", "there is no option kez"),
        ("CREATE STREAM a (b int) AS SELECT 1", "the query says which columns there are"),
        ("CREATE STREAM a (b int", "a closing parenthesis is missing"),
        ("CREATE STREAM a (b int) PLEASE", "'PLEASE' was not expected"),
    ],
)
def test_sql_that_makes_no_sense_is_told_where(text: str, said: str) -> None:
    with pytest.raises(AppError, match=said):
        App("sql").sql(text + " ")


def test_mistakes_in_an_app_are_told_at_once(tmp_path: Path) -> None:
    app = App("mistakes")
    for said, mistake in {
        "JSON needs a schema": lambda: app.topic("a"),
        "a schema is for value='json'": lambda: app.topic("a", value="string", schema="b int"),
        "value='xml' is no format": lambda: app.topic("a", value="xml"),  # type: ignore[arg-type]
        "bad_records='ignore' is not one of": lambda: app.topic("a", value="raw", bad_records="ignore"),  # type: ignore[arg-type]
        "table t needs a key": lambda: app.table("t", key=[]),
        "partitions=0 makes no topic": lambda: app.to("t", partitions=0),
        "mode='all' is not one of": lambda: app.to("t", mode="all")(lambda: None),  # type: ignore
        "delivery='maybe' is not one of": lambda: App("a", delivery="maybe"),
        "cannot be the name of an app": lambda: App("a.b"),
        "cannot read .*none.sql": lambda: app.sql(tmp_path / "none.sql"),
        "there is no file": lambda: load_app(tmp_path / "none.py"),
    }.items():
        with pytest.raises(AppError, match=said):
            mistake()
    app.to("t", name="twice")(lambda: None)  # type: ignore
    with pytest.raises(AppError, match="two flows with the name twice"):
        app.to("u", name="twice")(lambda: None)  # type: ignore


def test_a_sql_file_is_an_app_by_itself(tmp_path: Path) -> None:
    file = tmp_path / "delays.sql"
    file.write_text(
        "CREATE STREAM a (b int) WITH (key = 'b, c'); CREATE TABLE t WITH (key = 'b') AS SELECT * FROM a"
    )
    app = load_app(file)
    assert (app.name, list(app.topics), list(app.flows)) == ("delays", ["a"], ["t"])
    assert app.topics["a"].format.key == ("b", "c")


def test_a_file_that_needs_a_session_is_run_again_in_one(tmp_path: Path) -> None:
    """As with `@udf("long")` outside of a flow."""
    pytest.importorskip("pyspark")
    started = tmp_path / "started"
    file = tmp_path / "late.py"
    file.write_text(
        "from pathlib import Path\n"
        "from pyspark.errors import PySparkRuntimeError\n"
        "from moldau.streams import App\n"
        f"if not Path({str(started)!r}).exists():\n"
        "    raise PySparkRuntimeError(errorClass='SESSION_OR_CONTEXT_NOT_EXISTS', messageParameters={})\n"
        "app = App('late')\n"
    )
    with pytest.raises(AppError, match="no session yet"):
        load_app(file)
    assert load_app(file, start_session=started.touch).name == "late"
