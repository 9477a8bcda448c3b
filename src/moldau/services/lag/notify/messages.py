"""The text of a notification: a user's template (Jinja2, sandboxed), or our own.

A template sees: cluster, group, id, start, status, totallag, lag_seconds, sentence, partitions (those that
are not well, as in `/status`), closes, extras.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moldau.common.settings.rows import SettingError
from moldau.services.lag.notify.incidents import Notice
from moldau.services.lag.routes.documents import group_document
from moldau.services.lag.sentences import duration
from moldau.services.lag.store import GroupStatus

Facts = Mapping[str, Any]
Text = Callable[[Facts], str]
_OUTPUT_CHARACTERS_MAX = 1_000_000


def facts_of(status: GroupStatus, notice: Notice, extras: Mapping[str, Any], now_ms: int) -> Facts:
    """What a template sees."""
    return {
        **group_document(status, now_ms, all_partitions=False),
        "id": notice.incident_id,
        "start": datetime.fromtimestamp(notice.start_ms / 1000, UTC).isoformat(timespec="seconds"),
        "lasts": duration((now_ms - notice.start_ms) / 1000),
        "closes": notice.closes,
        "extras": dict(extras),
    }


def json_text(facts: Facts) -> str:
    """Everything, as JSON."""
    return json.dumps(facts, default=str)


def plain_text(facts: Facts) -> str:
    """A few lines for people."""
    if facts["closes"]:
        return f"OK again after {facts['lasts']}: {facts['cluster']} / {facts['group']}. {facts['sentence']}"
    lines = [f"{facts['status']} since {facts['start']}: {facts['cluster']} / {facts['sentence']}"]
    lines += [f"  {each['status']:6} {each['sentence']}" for each in facts["partitions"][:20]]
    more = len(facts["partitions"]) - 20
    return "\n".join([*lines, f"  and {more} partitions more"] if more > 0 else lines)


def template_of(path: str, setting: str) -> Text:
    """A user's template. SettingError: it cannot be read, or is none."""
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise SettingError(setting, f"{setting} needs jinja2: pip install 'moldau[lag]'") from None
    try:
        source = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingError(setting, f"{setting} {path} cannot be read: {problem}") from None
    environment = ImmutableSandboxedEnvironment(autoescape=False)
    environment.filters["json"] = lambda value: json.dumps(value, default=str)
    try:
        template = environment.from_string(source)
    except TemplateError as problem:
        advice = ""
        if "{{." in source.replace(" ", "") or "{{-" in source:
            advice = "; a Go template of Burrow's is rewritten in Jinja2: {{ group }} for {{.Group}}"
        raise SettingError(setting, f"{setting} {path}: {problem}{advice}") from None

    def text(facts: Facts) -> str:
        pieces, size = [], 0
        for piece in template.generate(**facts):
            pieces.append(piece)
            size += len(piece)
            if size > _OUTPUT_CHARACTERS_MAX:
                raise ValueError(f"{path} makes more than {_OUTPUT_CHARACTERS_MAX:,} characters")
        return "".join(pieces)

    return text
