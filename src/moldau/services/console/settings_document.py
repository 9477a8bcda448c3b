"""The settings in docs/console.md.

python -m moldau.services.console.settings_document docs/console.md
"""

import sys
from pathlib import Path

from moldau.services.console.settings import ConsoleSettings
from moldau.services.http.settings import HttpSettings

BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"


def table() -> str:
    """The console's own settings, a line each."""
    lines = ["| setting | default | |", "| --- | --- | --- |"]
    for name, row in sorted(ConsoleSettings.ROWS.items()):
        if name not in HttpSettings.ROWS:
            default = f"`{row.text(row.default)}`" if row.default not in (None, "", ()) else ""
            lines.append(f"| `{name}` | {default} | {row.documentation} |")
    return "\n".join(lines) + "\n"


def replaced(text: str) -> str:
    """A document with the table as it is now."""
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    return f"{before}\n{table()}{after}"


def main(path: Path) -> None:
    """Write the table into a document."""
    path.write_text(replaced(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
