"""The help and completion of `moldau serve`, built from the option table in command.py.

It does not run a broker: main.py passes `serve` without --help to command.py before typer is imported. If it
is called all the same, it does the same, with a slower start.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from moldau.tools.commands.serve.command import OPTIONS, Option, serve
from moldau.tools.shared.options import teach

HELP = """Run a broker until Ctrl-C (or SIGTERM).

Examples:

* moldau serve --data /var/lib/moldau
* moldau serve --listen 0.0.0.0:9092 --set advertised.listeners=PLAINTEXT://broker.example:9092
* moldau serve --config server.properties --set log.retention.ms=3600000
* moldau serve --with registry,rest                   a schema registry and a REST proxy in the same process
* moldau serve --with connect                         a worker of Kafka Connect in the same process
* moldau serve --with registry=0.0.0.0:8081 --set registry.schema.compatibility.level=full
* moldau serve --port 0 --http 127.0.0.1:0 --json      any free ports; the ready line names them

Settings come from --config, then KAFKA_* and MOLDAU_* variables (KAFKA_LOG_RETENTION_MS is
log.retention.ms), then the options; docs/settings.md lists them all. When the broker is ready it prints one
line with its addresses.
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("serve", help=teach(HELP))(_command())


def _command() -> Any:
    def run(**values: Any) -> None:
        raise typer.Exit(serve(_words(values)))

    # typer reads a function's signature; this one is written from the table, so that there is only one list
    # of options.
    run.__signature__ = inspect.Signature([_parameter(option) for option in OPTIONS])  # type: ignore[attr-defined]
    return run


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = bool if not option.value else (list[str] | None if option.repeatable else str | None)
    shown: Any = typer.Option(*option.names, metavar=option.value or None, help=option.help)
    return inspect.Parameter(
        _identifier(option),
        inspect.Parameter.KEYWORD_ONLY,
        default=False if not option.value else None,
        annotation=Annotated[kind, shown],
    )


def _identifier(option: Option) -> str:
    return option.names[0].removeprefix("--").replace("-", "_") + "_"


def _words(values: dict[str, Any]) -> list[str]:
    """Turn parsed values back into the words that command.py parses."""
    words = []
    for option in OPTIONS:
        given = values[_identifier(option)]
        for value in given if isinstance(given, list) else [given]:
            if value is True:
                words.append(option.names[0])
            elif value:
                words += [option.names[0], value]
    return words
