"""The worker's Spark session: asked for late, once, with the worker's settings; and what is said where it
cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.connect import ConnectError
from moldau.streams.java import JavaMissing
from moldau.tools.commands.connect.spark import spark_of


def test_master_and_settings_are_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def made(name: str, *, master: str | None, settings: dict[str, str]) -> str:
        asked.append((name, master, settings))
        return "session"

    monkeypatch.setattr("moldau.streams.session.spark_session", made)
    texts = {
        "moldau.connect.spark.master": "local[3]",
        "moldau.connect.spark.conf.spark.executor.memory": "2g",
        "moldau.connect.spark.checkpoints": "/c",
    }
    session = spark_of(texts)
    assert session is not None
    assert asked == []
    assert session() == "session"
    assert session() == "session"
    assert asked == [("moldau-connect", "local[3]", {"spark.executor.memory": "2g"})]


def test_without_java_the_task_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(name: str, **more: Any) -> None:
        raise JavaMissing("no Java 17")

    monkeypatch.setattr("moldau.streams.session.spark_session", made)
    session = spark_of({})
    assert session is not None
    with pytest.raises(ConnectError, match="Spark cannot start: no Java 17"):
        session()


def test_without_spark_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert spark_of({}) is None
