"""Generates docs/commands.md from the commands: `python -m moldau.tools.document > docs/commands.md`.

A test compares the file with this output, so every command and option is documented.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

SHARED = ("bootstrap", "client_settings", "command_config", "timeout")
"""Options of every client command, shown once at the head of the page."""

HEAD = """\
# Commands

Made from the commands by `python -m moldau.tools.document`; each prints the same with `--help`.

Client commands (topics, produce, consume, groups, transactions, brokers, configs, status, doctor) share
options:

| option | what it does |
| --- | --- |
| `--bootstrap-server`, `-b` `HOST:PORT` | The broker: this, else `MOLDAU_BOOTSTRAP`, else `127.0.0.1:9092`. |
| `--command-config` `FILE` | Client settings, as Kafka's tools take them; else `MOLDAU_COMMAND_CONFIG`. |
| `--client-setting`, `-X` `NAME=VALUE` | A client setting (`-X security.protocol=ssl`). Repeatable. |
| `--timeout` `SECONDS` | How long to wait for the broker's answer. |

They print a table on a terminal and aligned plain text in a
pipe, with the column names of Kafka's own tools; `--json` prints JSON. What was asked for goes to standard
output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 called wrongly, 130 interrupted;
`moldau status` has its own.

`moldau --install-completion` teaches your shell to complete commands, options, and the names of
topics and groups that the broker has.
"""


def document() -> str:
    """Return the whole page."""
    import typer

    from moldau.tools.app import COMMANDS, build
    from moldau.tools.shared.options import take_command_config

    root: Any = typer.main.get_command(build(list(COMMANDS)))
    take_command_config(root)
    sections = [HEAD]
    for name in COMMANDS:
        sections += _sections(f"moldau {name}", root.commands[name], level=2)
    return "\n".join(sections)


def _sections(path: str, command: Any, level: int) -> Iterator[str]:
    inner = getattr(command, "commands", {})
    text = inspect.cleandoc(command.help or "")
    lines = [f"{'#' * level} {path}", "", _fenced(text), ""]
    if not inner:
        lines += [f"    {_usage(path, command)}", ""]
        rows = [_row(param) for param in command.params if param.name not in ("help", *SHARED)]
        if rows:
            lines += ["| option | what it does |", "| --- | --- |", *rows, ""]
    yield "\n".join(lines)
    for name, each in inner.items():
        yield from _sections(f"{path} {name}", each, level + 1)


def _fenced(text: str) -> str:
    """Put example lines into a code block, and leave prose as it is."""
    blocks = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("* "):
            blocks.append("\n".join("    " + line.removeprefix("* ") for line in paragraph.split("\n")))
        else:
            blocks.append(paragraph)
    return "\n\n".join(blocks)


def _usage(path: str, command: Any) -> str:
    arguments = [_argument(param) for param in command.params if param.param_type_name == "argument"]
    return " ".join([path, "[OPTIONS]", *arguments])


def _argument(param: Any) -> str:
    name = (param.metavar or param.name).upper()
    if param.nargs == -1:
        name += "..."
    return name if param.required else f"[{name}]"


def _row(param: Any) -> str:
    if param.param_type_name == "argument":
        names = f"`{(param.metavar or param.name).upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*param.opts, *param.secondary_opts])
        if not param.is_flag:
            names += f" {_code(param.metavar)}" if param.metavar else ""
    notes = []
    if param.default not in (None, False, "", 0, 0.0, ()) and not callable(param.default):
        shown = param.default
        if isinstance(shown, bool):
            shown = param.opts[0]
        notes.append(f"default {_code(str(shown))}")
    if getattr(param, "envvar", None):
        notes.append(f"environment `{param.envvar}`")
    text = (param.help or "").replace("|", "\\|")
    return f"| {names} | {text}{' (' + '; '.join(notes) + ')' if notes else ''} |"


def _code(text: str) -> str:
    return f"`{text}`"


if __name__ == "__main__":
    print(document(), end="")
