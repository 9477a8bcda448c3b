"""The load generators' accounting, with a client whose deliveries the test decides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.tools.commands.perf.latencies import Latencies
from moldau.tools.commands.perf.payloads import counting, lines_of, random_letters
from moldau.tools.commands.perf.producing import Load, Outcome, ProducerLoad


class FakeProducer:
    """Takes `room` records at most, and delivers what waits after `delay` seconds of a clock that only it
    moves.
    """

    def __init__(
        self, settings: dict[str, Any], delay: float, room: int, fails: Callable[[int], bool]
    ) -> None:
        self.now = 0.0
        self.values: list[bytes] = []
        self.transactions: list[str] = []
        self._failed = settings["on_delivery"]
        self._delay, self._room, self._fails = delay, room, fails
        self._waiting: list[tuple[float, int]] = []

    def produce(self, topic: str, value: bytes) -> None:
        if len(self._waiting) == self._room:
            raise BufferError("full")
        self.now += 1e-6
        self._waiting.append((self.now + self._delay, len(self.values)))
        self.values.append(value)

    def poll(self, seconds: float) -> int:
        if self._waiting and seconds:
            self.now = max(self.now, min(self._waiting[0][0], self.now + seconds))
        elif seconds:
            self.now += seconds
        while self._waiting and self._waiting[0][0] <= self.now:
            _, number = self._waiting.pop(0)
            if self._fails(number):
                self._failed(Refusal(), None)
        return 0

    def __len__(self) -> int:
        return len(self._waiting)

    def init_transactions(self) -> None:
        self.transactions.append("init")

    def begin_transaction(self) -> None:
        self.transactions.append("begin")

    def commit_transaction(self) -> None:
        assert not self._waiting, "a transaction is committed once all of it was delivered"
        self.transactions.append("commit")


class Refusal:
    """A KafkaError."""

    def str(self) -> str:
        return "too large"

    def name(self) -> str:
        return "MSG_SIZE_TOO_LARGE"


def run(
    records: int,
    *,
    delay: float = 0.01,
    room: int = 10_000,
    fails: Callable[[int], bool] = lambda number: False,
    **more: Any,
) -> tuple[Outcome, FakeProducer]:
    made: list[FakeProducer] = []

    def connect(settings: dict[str, Any]) -> Any:
        made.append(FakeProducer(settings, delay, room, fails))
        return made[0]

    load = Load("t", records, more.pop("payloads", random_letters(10)), **more)
    outcome = ProducerLoad(load, {}, connect=connect, clock=lambda: made[0].now).run()
    return outcome, made[0]


def test_every_record_is_sent_once_in_order_although_the_queue_was_full() -> None:
    outcome, client = run(1050, payloads=counting(), room=70)
    assert client.values == [b"%d" % number for number in range(1050)]
    assert outcome.total.records == 1050
    assert round(outcome.total.bytes) == sum(map(len, client.values))
    assert outcome.failed == 0


def test_latency_is_the_time_from_sending_to_delivery() -> None:
    outcome, _ = run(100, delay=0.25, records_per_second=1.0)
    # one record a second; the waits for the rate last 50 ms, so a delivery is seen at most so much later
    assert 250 <= outcome.total.latencies.mean_ms <= 300
    assert 250 <= outcome.total.latencies.percentile_ms(0.99) <= 301
    assert 99 <= outcome.total.seconds <= 100


def test_the_rate_is_kept() -> None:
    outcome, client = run(5000, records_per_second=1000.0)
    assert len(client.values) == 5000
    assert 4.99 <= outcome.total.seconds <= 5.1


def test_records_of_the_warm_up_are_in_no_steady_figure() -> None:
    outcome, _ = run(1000, warmup=333)
    assert outcome.steady is not None
    assert (outcome.total.records, outcome.steady.records) == (1000, 667)


def test_a_failure_among_many_is_counted_with_its_reason() -> None:
    outcome, _ = run(1000, fails=lambda number: number in (3, 998))
    assert (outcome.failed, outcome.failure) == (2, "too large (MSG_SIZE_TOO_LARGE)")


def test_transactions_are_committed_after_their_time_and_at_the_end() -> None:
    outcome, client = run(1000, delay=0.001, transaction_ms=1, records_per_second=100_000.0)
    assert client.transactions[0] == "init"
    steps = client.transactions[1:]
    assert steps[::2] == ["begin"] * (len(steps) // 2)
    assert steps[1::2] == ["commit"] * (len(steps) // 2)
    assert len(steps) > 4
    assert outcome.total.records == 1000


def test_percentiles_are_half_a_percent_off_at_most() -> None:
    found = Latencies()
    values = [0.0, *(1.01**number / 1000 for number in range(2000))]
    for value in values:
        found.add(value)
    for share in (0.25, 0.5, 0.95, 0.999):
        exact = sorted(values)[min(len(values) - 1, int(share * len(values)))]
        assert found.percentile_ms(share) == pytest.approx(exact, rel=0.016, abs=0.001)
    assert found.percentile_ms(1.0) == pytest.approx(max(values), rel=0.005)
    assert found.mean_ms == pytest.approx(sum(values) / len(values))


def test_the_rows_of_the_chart_hold_every_record() -> None:
    found = Latencies()
    for value in (0.0, 0.4, 1, 3, 3, 700, 80_000):
        found.add(value, 2)
    rows = list(found.bars())
    assert sum(count for _, _, count in rows) == 14
    assert len(rows) <= 12
    assert all(lower < upper for lower, upper, _ in rows)
    assert list(Latencies().bars()) == []


def test_payloads_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_text("one\ntwo\n\nfour\n", encoding="utf-8")
    values, count = lines_of(file)
    assert count == 4
    assert set(values(500)) == {b"one", b"two", b"", b"four"}
    file.write_text("")
    with pytest.raises(ValueError, match="empty file"):
        lines_of(file)


def test_random_values_are_letters_of_the_size_asked_for_and_repeat_late() -> None:
    take = random_letters(100)
    values = take(30_000)
    assert {len(value) for value in values} == {100}
    assert len(set(values)) == 30_000
    assert len(take(100_000)) == 100_000
    assert b"".join(values[:100]).isupper()
