"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="MOLDAU_BOOTSTRAP",
        metavar="HOST:PORT",
        help="A broker of the cluster (several, separated by commas, are tried in turn).",
        rich_help_panel="Connection",
    ),
]
ClientSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--client-setting",
        "-X",
        metavar="NAME=VALUE",
        help="A librdkafka setting, such as -X security.protocol=ssl. May be repeated.",
        rich_help_panel="Connection",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="How long to wait for the broker's answer.",
        rich_help_panel="Connection",
    ),
]
Throttle = Annotated[
    int | None,
    typer.Option(
        "--throttle", metavar="BYTES", min=1, help="At most so many bytes a second for each broker."
    ),
]
AtOnce = Annotated[
    int, typer.Option("--at-once", metavar="COUNT", min=1, help="How many partitions move at a time.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]

DEFAULT_TIMEOUT_SECONDS = 15.0
DEFAULT_AT_ONCE = 50


def parse_assignments(assignments: list[str] | None, option: str) -> dict[str, str]:
    """Turn repeated NAME=VALUE words into a mapping; `option` is named in the error."""
    from moldau.cli.shared.errors import UsageError

    parsed = {}
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} {assignment!r} is not of the form NAME=VALUE")
        parsed[name.strip()] = value.strip()
    return parsed


def teach(text: str) -> str:
    """Join the lines of each paragraph of a help text, since typer prints its line ends. Examples (`*
    ...`) keep theirs.
    """
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(each if each.startswith("* ") else " ".join(each.split("\n")) for each in paragraphs)
