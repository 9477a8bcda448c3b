"""When a sink moves between engines: not for a peak, not back and forth, and why."""

from __future__ import annotations

from moldau.connect import Sink, Source
from moldau.services.connect.runtime.connector_instance import chosen_before
from moldau.services.connect.runtime.engine_choice import EngineChoice, Look
from moldau.services.connect.runtime.engines import LOCAL, SPARK, TASK_ENGINE, TASK_WHY, Engine, engine_of


class Topics:
    """Records come at a rate, and are written at once; a look every ten seconds."""

    def __init__(self, choice: EngineChoice, partitions: int = 4) -> None:
        self.choice, self.partitions = choice, partitions
        self.now_s, self.ends = 0, 0
        self.moves: list[tuple[int, str]] = []

    def go(self, seconds: int, rate: float, lag: int = 0) -> None:
        for _ in range(seconds // 10):
            self.now_s += 10
            self.ends += int(rate * 10)
            before = self.choice.engine.name
            after = self.choice.looked(Look(self.now_s * 1000.0, self.ends, lag, self.partitions)).name
            if after != before:
                self.moves.append((self.now_s, after))


def test_a_peak_moves_nothing_and_a_load_about_the_limit_does_not_swing() -> None:
    topics = Topics(EngineChoice(100, Engine(LOCAL, "")))
    for _ in range(20):
        topics.go(20, 5_000)
        topics.go(20, 10)
    topics.go(600, 149)
    topics.go(600, 51)
    assert topics.moves == []


def test_much_for_long_moves_to_spark_and_little_for_longer_back() -> None:
    topics = Topics(EngineChoice(100, Engine(LOCAL, "")))
    topics.go(100, 10)
    topics.go(100, 1_000)
    assert topics.moves == [(130, SPARK)]
    assert topics.choice.engine.why == (
        "auto: 1000 records a second to move in 4 partitions, more than 150 for 30 s"
    )
    topics.go(290, 1)
    assert len(topics.moves) == 1
    topics.go(100, 1)
    assert topics.moves[1] == (500, LOCAL)
    assert "less than 50 for 300 s" in topics.choice.engine.why


def test_what_waits_counts_too() -> None:
    topics = Topics(EngineChoice(100, Engine(LOCAL, "")))
    topics.go(100, 0, lag=100_000)
    assert topics.moves == [(40, SPARK)]


def test_one_partition_stays_and_a_missed_look_begins_anew() -> None:
    topics = Topics(EngineChoice(100, Engine(LOCAL, "")), partitions=1)
    topics.go(300, 10_000)
    assert topics.moves == []
    topics = Topics(EngineChoice(100, Engine(LOCAL, "")))
    for _ in range(20):
        topics.go(30, 10_000)
        topics.choice.missed()
    assert topics.moves == []


def test_a_tasks_settings_say_what_runs_it() -> None:
    class Any(Sink):
        def write(self, batch: object, number: int) -> None: ...

    moved = {TASK_ENGINE: SPARK, TASK_WHY: "much to do"}
    assert engine_of(Any, moved, {}) == Engine(SPARK, "much to do")
    assert chosen_before([moved]) == Engine(SPARK, "much to do")
    assert chosen_before([{}]) is None
    assert engine_of(Any, {}, {}).name == LOCAL
    fixed = engine_of(Any, {**moved, "moldau.connect.engine": "local"}, {})
    assert fixed == Engine(LOCAL, "moldau.connect.engine=local")
    assert engine_of(Any, {}, {"moldau.connect.engine": "spark"}).name == SPARK
    assert engine_of(Source, moved, {}).name == LOCAL
    assert engine_of(Source, {}, {"moldau.connect.engine": "spark"}).name == SPARK
