"""Wrong options are told for the whole app before Java is even looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from moldau.client import options as client_options
from moldau.streams import App, AppError
from moldau.streams.checking import check_options
from moldau.streams.durations import checked_duration
from moldau.streams.places import source_options
from moldau.streams.runner import run_app
from moldau.streams.writing import written_options


def app_with(topic_options: dict[str, str] | None = None, app_options: dict[str, str] | None = None) -> App:
    app = App("a", bootstrap_servers="127.0.0.1:1", options=app_options)
    app.topic("first", value="string")
    app.topic("in", value="string", options=topic_options)
    app.topic("first", value="raw", options=topic_options)  # read in another way
    app.to("out", value="string", name="f")(lambda: None)  # type: ignore[arg-type,return-value]
    return app


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        (
            app_with({"maxOffsetPerTrigger": "5"}),
            r"^topic in: .*no option 'maxoffsetpertrigger'.*did you mean",
        ),
        (app_with({"startingOffsets": "first"}), "^topic in: startingOffsets must be earliest"),
        (app_with(None, {"kafka.request.timeout.ms": "soon"}), "^topic first: kafka.request.timeout.ms must"),
        (app_with(None, {"kafka.acks": "1"}), "^flow f writes out: kafka.acks is 1, which may lose records"),
        (app_with(None, {"kafka.compression.type": "zip"}), "^flow f writes out: kafka.compression.type may"),
    ],
)
def test_a_wrong_option_is_told_before_java_starts(
    app: App, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("Java or the cluster was asked first")

    monkeypatch.setattr("moldau.streams.launching.started_session", started)
    monkeypatch.setattr("moldau.streams.output_topics.Cluster", started)
    with pytest.raises(AppError, match=sentence):
        run_app(app)


def test_every_reading_of_a_topic_is_checked() -> None:
    app = App("a")
    app.topic("t", value="string")
    app.topic("t", value="raw", options={"nonsense": "1"})
    with pytest.raises(AppError, match="topic t: the format moldau has no option 'nonsense'"):
        check_options(app, str)


def test_settings_go_to_the_side_that_acts_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_options, "_warned", set())
    both = {"kafka.security.protocol": "PLAINTEXT"}
    reading = {"kafka.isolation.level": "read_uncommitted", "kafka.fetch.max.bytes": "1000"}
    writing = {"kafka.compression.type": "lz4", "kafka.Batch.Size": "1000"}
    app = app_with(None, both | reading | writing | {"failOnDataLoss": "false"})
    said: list[str] = []
    check_options(app, said.append)
    assert said == []
    read = source_options(app, app.topics["in"], headers=False)
    written = written_options(app, app.flows["f"], app.flows["f"].output)  # type: ignore[arg-type]
    assert both.items() <= read.items()
    assert both.items() <= written.items()
    assert not writing.keys() & read.keys()
    assert not reading.keys() & written.keys()
    assert "failOnDataLoss" in read
    assert "failOnDataLoss" not in written


def test_what_has_no_effect_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_options, "_warned", set())
    app = app_with({"kafka.max.poll.records": "7"}, {"kafka.linger.ms": "5"})
    said: list[str] = []
    check_options(app, said.append)
    check_options(app, said.append)
    assert said == [
        "the option kafka.max.poll.records has no effect in Moldau's client",
        "the option kafka.linger.ms has no effect when the format moldau writes",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "10 seconds",
        "1 second",
        "100 milliseconds",
        "1 hour 30 minutes",
        "interval 2 days",
        "1.5 SECONDS",
        "1 week",
    ],
)
def test_spans_of_time_that_spark_reads(text: str) -> None:
    assert checked_duration(text, "x") == text


@pytest.mark.parametrize("text", ["", "10", "seconds", "10s", "soon", "1 hour,"])
@pytest.mark.parametrize("place", ["trigger", "watermark"])
def test_other_spans_are_refused_where_they_are_written(text: str, place: str) -> None:
    app = App("a")
    make: Callable[[], object] = (
        (lambda: app.to("out", name="f", trigger=text)(lambda: None))  # type: ignore[arg-type,return-value]
        if place == "trigger"
        else lambda: app.topic("t", value="string", watermark=("at", text))
    )
    with pytest.raises(AppError, match=f"{place}='{text}' is no span of time: write one such as"):
        make()
