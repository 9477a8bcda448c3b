"""What health says of mirrors."""

from __future__ import annotations

from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.metadata.mirrors import MirrorState, MirrorTopic
from moldau.broker.monitor.mirror_probe import mirrors
from moldau.broker.monitor.sources import MirrorRow

IMAGE = EMPTY_IMAGE._replace(
    mirrors={
        "orders": MirrorTopic("berlin", "orders", state=MirrorState.FAULTED, reason="made anew"),
        "clicks": MirrorTopic("berlin", "clicks", state=MirrorState.MIRRORING),
    }
)


class Mirrors:
    def __init__(self, *rows: MirrorRow) -> None:
        self._rows = rows

    def rows(self) -> tuple[MirrorRow, ...]:
        return self._rows

    def bytes_pulled(self) -> dict[str, int]:
        return {}


def row(lost_seconds: float | None, cut: int = 0, problem: str = "") -> MirrorRow:
    return MirrorRow("berlin", "clicks", 0, lost_seconds, 5, cut, 0, problem)


def test_faults_are_told_by_every_broker() -> None:
    (found,) = mirrors(lambda: IMAGE, lambda: None)()
    assert (found.name, found.message) == ("mirror-faulted", "orders, over the link berlin: made anew")


def test_what_is_behind_for_a_minute_and_what_was_cut_is_told() -> None:
    def told(*rows: MirrorRow) -> list[str]:
        return [each.name for each in mirrors(lambda: EMPTY_IMAGE, lambda: Mirrors(*rows))()]

    assert told(row(0.5), row(None), row(59)) == []
    assert told(row(61)) == ["mirror-behind"]
    assert told(row(0.5, cut=3)) == ["mirror-cut"]
    (found,) = mirrors(lambda: EMPTY_IMAGE, lambda: Mirrors(row(90, problem="refused")))()
    assert "would lose 90 s (refused)" in found.message
