"""Every setting of Kafka 4.3.1 has a row: same type, same default, changed in the same way, or the difference
stands here with its reason. `kafka_settings.txt` was read from a live broker."""

from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.rows import Kind, Setting
from moldau.common.settings.topic import TopicSettings


class Known(NamedTuple):
    """One line of the table."""

    kind: str
    name: str
    type: str
    mode: str
    default: str


LINES = (Path(__file__).parent / "kafka_settings.txt").read_text().splitlines()
TABLE = [Known(*line.split(" ", 4)) for line in LINES if not line.startswith("#")]
ROWS = {"broker": BrokerSettings.ROWS, "topic": TopicSettings.ROWS, "group": GroupSettings.ROWS}
DIFFERENT = {
    ("broker", "listeners"): "listeners cannot be added while the broker runs",
    (
        "broker",
        "listener.security.protocol.map",
    ): "the same; and it is a list of pairs, which Kafka splits later",
    ("broker", "log.dir"): "a folder of its own below the present one, and one folder only",
    ("broker", "queued.max.request.bytes"): "memory has a limit unless somebody lifts it",
}


def facts(row: Setting, kind: str) -> tuple[str, str, str]:
    """Type, mode and default, in the words of the table."""
    default = row.text(row.default)
    shown = "-" if default is None else default or '""'
    if row.kind is Kind.DOUBLE:
        shown = shown.upper().replace("E+", "E")
    return row.kind.name.lower(), row.scope.label if kind == "broker" else "dynamic", shown


@pytest.mark.parametrize("known", TABLE, ids=lambda known: f"{known.kind}-{known.name}")
def test_every_setting_has_its_row(known: Known) -> None:
    row = ROWS[known.kind].get(known.name)
    assert row is not None, "Kafka has this setting"
    found = facts(row, known.kind)
    mode = (
        "read-only" if known.mode == "per-listener" else known.mode
    )  # a listener has no settings of its own
    expected = (known.type, mode, known.default if known.default != "?" else found[2])
    assert (found != expected) == ((known.kind, known.name) in DIFFERENT), (found, expected)


def test_the_differences_are_of_settings_that_there_are() -> None:
    assert set(DIFFERENT) <= {(known.kind, known.name) for known in TABLE}
