"""Generates docs/settings.md from the tables: `python -m moldau.common.settings.document > docs/settings.md`.

A test compares the file with this output, so every setting is documented.
"""

import sys
from collections.abc import Mapping

from moldau.common.settings.broker import REMOVED_NAMES, REMOVED_PREFIXES, BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.rows import Setting
from moldau.common.settings.topic import TopicSettings

_HEAD = """\
# Settings

Names, types and defaults are Kafka's; where Moldau differs, the text says so. Made from the tables in
`src/moldau/common/settings/` by `python -m moldau.common.settings.document`.

A broker reads, each over the one before: a `server.properties` file (`--config`), the environment
(`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`; `_` stands for `.`, `__` for `_`, `___` for `-`), `--set
name=value`, and changes made while it runs (`moldau configs`, or any Kafka tool). An unknown name gives a
warning that suggests the nearest known one. A value that a setting cannot take stops the start, with a
sentence that says what would be right.

Update mode: *cluster-wide* settings can change at run time for all brokers or one, *per-broker* ones for one;
*read-only* ones need a restart.
"""


def document() -> str:
    """The whole page."""
    parts = [_HEAD]
    parts.append("## Broker settings\n")
    parts += [_entry(row, with_scope=True) for row in _sorted(BrokerSettings.ROWS)]
    parts.append(
        "## Topic settings\n\nFor one topic; the broker setting named as default gives what is not set.\n"
    )
    parts += [_entry(row, with_scope=False) for row in _sorted(TopicSettings.ROWS)]
    parts.append("## Group settings\n\nFor one consumer group.\n")
    parts += [_entry(row, with_scope=False) for row in _sorted(GroupSettings.ROWS)]
    removed = ", ".join(f"`{name}`" for name in sorted(REMOVED_NAMES))
    families = ", ".join(f"`{prefix}*`" for prefix in REMOVED_PREFIXES)
    parts.append(f"## Removed in Kafka 4\n\nAccepted with a warning, and ignored: {removed}, {families}.\n")
    return "\n".join(parts)


def _sorted(rows: Mapping[str, Setting]) -> list[Setting]:
    return [rows[name] for name in sorted(rows)]


def _entry(row: Setting, *, with_scope: bool) -> str:
    default = row.text(row.default)
    facts = [f"type {row.kind.name.lower()}", f"default {_code(default)}"]
    if row.valid:
        facts.append(f"valid {row.valid}")
    if with_scope:
        facts.append(row.scope.label)
    if row.synonyms:
        facts.append("default from " + ", then ".join(f"`{name}`" for name in row.synonyms))
    return f"### {row.name}\n\n{row.help}\n\n*{'; '.join(facts)}*\n"


def _code(text: str | None) -> str:
    if text is None:
        return "unset"
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    sys.stdout.write(document())
