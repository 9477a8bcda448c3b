"""The broker's page for people in a real browser: nothing is cut off, at any width, light or dark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import headless_browser
import pytest

from moldau.broker.monitor.conditions import Condition, Severity
from moldau.broker.monitor.overview import overview

pytestmark = pytest.mark.skipif(
    headless_browser.missing() is not None, reason=str(headless_browser.missing())
)

LONG = "orders-" + "of-a-very-long-name-" * 8
FACTS: dict[str, object] = {
    "cluster_id": "O6PzaLS9Ri-CD66djDPJoA",
    "compaction": {"running": [LONG], "backlog": {"partitions": 3, "bytes": 1 << 40}, "uncleanable": []},
    "members": [
        {"id": 1, "rack": "a", "state": "live", "since": None, "leaders": 107, "replicas": 107},
        {
            "id": 2,
            "rack": LONG,
            "state": "gone",
            "since": "2026-02-14 09:00:00 UTC",
            "leaders": 0,
            "replicas": 9,
        },
    ],
    "listeners": {"PLAINTEXT": "broker-1.example:9092", "SSL": "broker-1.example:9093"},
}
CAUSES = [
    Condition("under-replicated", Severity.WARN, f"broker 2 is gone: {LONG}", "Start it."),
    Condition("log-dir-full", Severity.FAIL, "the disk of <b>/data</b> is full", "Free space on it."),
]
CUT = """[...document.querySelectorAll("body *")].filter(each => {
    const box = each.getBoundingClientRect();
    const scrolls = each.clientWidth && each.scrollWidth > each.clientWidth + 1;
    return box.width && (box.right > innerWidth + 1 || scrolls);
}).map(each => each.tagName + ": " + each.textContent.slice(0, 60))"""


def test_nothing_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    verdict: Any = SimpleNamespace(word="failing", causes=CAUSES)
    file.write_text(overview(verdict, FACTS, {"/health": "the verdict"}))
    with headless_browser.opened(f"file://{file}") as page:
        page.wait_until("document.title === 'Moldau' && document.readyState === 'complete'")
        for width in (1400, 1000, 700, 400, 320):
            page.resize(width)
            page.wait_until(f"innerWidth === {width}")
            assert page.run(CUT) == [], width
        shown = page.run("document.body.innerText")
        scheme = page.run("getComputedStyle(document.documentElement).colorScheme")
    assert "<b>/data</b>" in shown, "what brokers say is no HTML"
    assert LONG in shown.replace("\n", "")
    assert scheme == "light dark"
