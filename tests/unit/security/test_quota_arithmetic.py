"""Rates, delays and token buckets of client quotas, beside figures of Apache Kafka 4.3.1's own classes."""

from pathlib import Path

import pytest

from moldau.broker.security.quotas.rate import Rate, Windows
from moldau.broker.security.quotas.token_bucket import TokenBucket

LIMIT = 1000.0


def kafka_figures():
    """(samples, length in ms, pause in ms, value, rate, delay in ms, tokens): one line for each record, of
    Rate, QuotaUtils.throttleTime and TokenBucket with a limit of 1000 a second."""
    text = Path(__file__).with_name("kafka_quota_figures.txt").read_text()
    return [[float(field) for field in line.split()] for line in text.splitlines()]


def test_rates_delays_and_tokens_are_kafkas():
    seen, now_ms = None, 0.0
    for kept, length_ms, pause_ms, value, per_second, delay_ms, tokens in kafka_figures():
        windows = Windows(int(kept), int(length_ms))
        if windows != seen:
            seen, now_ms = windows, 1_000_000.0
            rate, bucket = Rate(windows), TokenBucket(windows)
        now_ms += pause_ms
        rate.record(value, now_ms)
        bucket.spend(value, LIMIT, now_ms)
        assert rate.per_second(now_ms) == pytest.approx(per_second)
        assert rate.delay_ms(LIMIT, now_ms) == delay_ms
        assert bucket.tokens(LIMIT, now_ms) == pytest.approx(tokens)


def test_after_the_delay_the_rate_is_not_above_the_limit():
    rate = Rate(Windows(11, 1000))
    now_ms = 0.0
    for _ in range(40):
        now_ms += 500.0
        rate.record(700, now_ms)
    assert rate.per_second(now_ms) > LIMIT
    now_ms += rate.delay_ms(LIMIT, now_ms)
    assert rate.per_second(now_ms) <= LIMIT * 1.01


def test_what_would_be_added_is_not_recorded():
    rate = Rate(Windows())
    assert rate.delay_ms(LIMIT, 0.0, added=1e6) > 0
    assert rate.delay_ms(LIMIT, 0.0) == 0
    assert rate.is_empty(0.0)


def test_a_rate_is_empty_when_nothing_counts_any_more():
    rate = Rate(Windows(11, 1000))
    rate.record(5, 0.0)
    assert not rate.is_empty(10_999.0)
    assert rate.is_empty(11_000.0)


def test_another_limit_keeps_what_was_used():
    bucket = TokenBucket(Windows(10, 1000))
    bucket.spend(25, 2.0, 0.0)
    assert bucket.tokens(2.0, 0.0) == -5
    assert bucket.delay_ms(2.0, 0.0) == 2_500
    assert bucket.delay_ms(10.0, 0.0) == 500
