"""Templates and their filters. Everything is escaped; a template has no script and no style of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPARK_WIDTH, _SPARK_HEIGHT = 96, 20


@cache
def environment() -> Environment:
    """The templates; compiled once."""
    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "count": count,
        "size": size,
        "rate": rate,
        "moment": moment,
        "age": age,
        "seg": lambda text: quote(str(text), safe=""),
        "spark": spark,
        "plural": lambda number, word: word if number == 1 else f"{word}s",
    }
    found.globals["query"] = query
    found.globals["bar"] = bar
    return found


def render(template: str, context: Mapping[str, Any]) -> str:
    """The document."""
    return environment().get_template(template).render(context)


def count(number: float | None) -> str | Markup:
    """A number with thousands; a place of the usual size for one that is not known yet."""
    if number is None:
        return Markup('<span class="wait" title="not known yet">···</span>')
    return f"{number:,.0f}".replace(",", "\u2009")


def size(number: int | None) -> str | Markup:
    """Bytes."""
    if number is None:
        return count(None)
    value = float(number)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def rate(number: float | None) -> str | Markup:
    """Something a second."""
    if number is None:
        return count(None)
    if number == 0:
        return "0"
    return f"{number:.1f}" if number < 10 else str(count(number))


def moment(at_ms: int | None) -> str | Markup:
    """A moment: UTC here, in the viewer's zone once the script has run; the title keeps UTC."""
    if at_ms is None or not 0 <= at_ms < 253_402_300_800_000:
        return "–" if at_ms is None else str(at_ms)
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    text = at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at_ms % 1000:03d}"
    stamp = at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(stamp, text, text)


def age(at_ms: int | None) -> str:
    """How long ago."""
    if at_ms is None:
        return "–"
    seconds = max(0, time.time() - at_ms / 1000)
    return span(seconds)


def span(seconds: float) -> str:
    """A length of time, in its largest unit."""
    for limit, unit, per in ((90, "s", 1), (5400, "min", 60), (129_600, "h", 3600)):
        if seconds < limit:
            return f"{seconds / per:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def spark(points: Sequence[tuple[int, float]]) -> Markup:
    """A course as a small line; the number beside it is for those who do not see it."""
    frame = f'<svg class="spark" viewBox="0 0 {_SPARK_WIDTH} {_SPARK_HEIGHT}" aria-hidden="true">'
    if len(points) < 2:
        return Markup(frame + "</svg>")
    first, last = points[0][0], points[-1][0]
    top = max(value for _, value in points) or 1.0
    width = max(1, last - first)
    line = " ".join(
        f"{(at - first) * _SPARK_WIDTH / width:.1f},"
        f"{_SPARK_HEIGHT - 1 - value * (_SPARK_HEIGHT - 3) / top:.1f}"
        for at, value in points
    )
    area = f"0,{_SPARK_HEIGHT} {line} {_SPARK_WIDTH},{_SPARK_HEIGHT}"
    return Markup(f'{frame}<polygon points="{area}"/><polyline points="{line}"/></svg>')


def bar(share: float | None, kind: str = "") -> Markup:
    """A share of 1 as a bar; `kind` is warn or bad."""
    width = 0.0 if share is None else min(1.0, max(0.0, share)) * 100
    return Markup(
        '<svg class="bar {}" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rest" width="100" height="6" rx="1"/><rect width="{}" height="6" rx="1"/></svg>'
    ).format(kind, f"{width:.1f}")


def query(now: Mapping[str, str], **changes: object) -> str:
    """The query of a URL with some of it changed; None takes a name away."""
    merged: dict[str, object] = {**now, **changes}
    kept = {name: str(value) for name, value in merged.items() if value not in (None, "")}
    return f"?{urlencode(kept)}" if kept else "?"
