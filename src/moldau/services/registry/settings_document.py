"""The settings in docs/schema-registry.md: the registry's own, and those of every HTTP service.

`python -m moldau.services.registry.settings_document docs/schema-registry.md` writes them.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from moldau.common.settings.rows import Setting
from moldau.services.http.settings import HttpSettings
from moldau.services.registry.settings import RegistrySettings

_OWN, _HTTP = "settings", "http settings"


def _table(rows: Iterable[tuple[str, Setting]]) -> str:
    lines = ["| setting | default | |", "| --- | --- | --- |"]
    for name, row in sorted(rows):
        default = f"`{row.text(row.default)}`" if row.default not in (None, "", ()) else ""
        lines.append(f"| `{name}` | {default} | {row.documentation} |")
    return "\n".join(lines) + "\n"


def replaced(text: str) -> str:
    """A document with the tables as they are now."""
    http = HttpSettings.ROWS
    own = [
        (name, row)
        for name, row in RegistrySettings.ROWS.items()
        if name not in http or row.default != http[name].default
    ]
    for mark, rows in ((_OWN, own), (_HTTP, list(http.items()))):
        begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
        before, after = text[: text.index(begin) + len(begin)], text[text.index(end) :]
        text = f"{before}\n{_table(rows)}{after}"
    return text


def main(path: Path) -> None:
    """Write the tables into a document."""
    path.write_text(replaced(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
