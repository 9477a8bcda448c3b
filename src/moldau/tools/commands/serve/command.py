"""`moldau serve`: runs a broker until SIGTERM or SIGINT.

The only command whose start time counts: the options are a table (`OPTIONS`) with a parser of its own here;
help.py shows the same table in the style of the other commands. Not here: the broker's parts
(moldau/broker/node.py), settings (common/settings).
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

FAILED = 1
MISUSED = 2


class Option(NamedTuple):
    """One option: its names, the name of its value ("" for a flag), whether it may be repeated, and its
    effect.
    """

    names: tuple[str, ...]
    value: str
    help: str
    repeatable: bool = False


OPTIONS = (
    Option(("--config", "-c"), "FILE", "A server.properties file, Kafka's or ours."),
    Option(
        ("--set", "-s"),
        "NAME=VALUE",
        "A setting; overrides the file and the environment.",
        repeatable=True,
    ),
    Option(("--data", "-d"), "DIR", "Where records are kept (log.dirs); several separated by commas."),
    Option(
        ("--listen", "-l"),
        "HOST:PORT",
        "Where clients connect (listeners); default 127.0.0.1:9092.",
    ),
    Option(("--port", "-p"), "PORT", "Only the port of --listen; 0 takes a free one and prints it."),
    Option(
        ("--http",),
        "HOST:PORT",
        "Where health and metrics are served (moldau.http.listener); `off` disables it.",
    ),
    Option(
        ("--with",),
        "NAMES",
        "Services in the same process: registry, rest, connect, lag, console, several with commas; "
        "NAME=HOST:PORT for an address.",
    ),
    Option(("--json",), "", "Print the ready line as JSON, for programs."),
)
"""The options of `moldau serve`. Every other setting goes through --set, the file or KAFKA_* variables."""


class Mistake(Exception):
    """The broker cannot start. The text is the reason and what to do."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


SERVICES = ("registry", "rest", "connect", "lag", "console")
"""What `--with` takes. Settings of theirs are those of --set that begin with the name and a dot."""


class Arguments(NamedTuple):
    """The parsed command line: values by the option's first name."""

    single: Mapping[str, str]
    repeated: Mapping[str, Sequence[str]]


def parse(words: Sequence[str]) -> Arguments:
    """Parse the words after `serve`. Raises Mistake for an unknown option."""
    by_name = {name: option for option in OPTIONS for name in option.names}
    single: dict[str, str] = {}
    repeated: dict[str, list[str]] = {option.names[0]: [] for option in OPTIONS if option.repeatable}
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        option = by_name.get(name)
        if option is None:
            raise Mistake(f"serve does not know {word!r}: see `moldau serve --help`", MISUSED)
        if not option.value:
            value = "yes"
        elif not equals:
            if not remaining:
                raise Mistake(f"{name} needs a value: {name} {option.value}", MISUSED)
            value = remaining.pop(0)
        if option.repeatable:
            repeated[option.names[0]].append(value)
        else:
            single[option.names[0]] = value
    return Arguments(single, repeated)


def overrides(arguments: Arguments) -> list[str]:
    """Return the `name=value` settings that the options stand for; --set comes last and wins."""
    given = arguments.single
    settings = []
    if "--data" in given:
        settings.append(f"log.dirs={given['--data']}")
    if "--listen" in given or "--port" in given:
        host, port = split_address(given.get("--listen", "127.0.0.1"), given.get("--port", "9092"))
        settings.append(f"listeners=PLAINTEXT://{host}:{port}")
    if "--http" in given:
        settings.append(f"moldau.http.listener={'' if given['--http'] == 'off' else given['--http']}")
    return settings + [each for each in arguments.repeated["--set"] if not is_of_service(each)]


def is_of_service(assignment: str) -> bool:
    """Whether NAME=VALUE is a setting of a service beside the broker."""
    return assignment.strip().startswith(tuple(f"{name}." for name in SERVICES))


def split_address(text: str, port: str) -> tuple[str, int]:
    """Parse HOST, HOST:PORT, :PORT or [IPv6]:PORT; `port` is the default."""
    host, colon, named = text.rpartition(":")
    if not colon or (host.count(":") and not host.endswith("]")):
        host, named = text, port
    if not named.isdigit() or int(named) > 65535:
        raise Mistake(
            f"{named!r} is not a port: write --listen HOST:PORT or --port PORT, 0 to 65535", MISUSED
        )
    return host, int(named)


def serve(words: Sequence[str]) -> int:
    """Run a broker by the command line. Returns the exit code."""
    try:
        arguments = parse(words)
        gc.disable()  # until the broker is ready: importing makes no garbage worth collecting
        try:
            return _run(arguments)
        finally:
            gc.enable()  # who called this from a program of his own goes on
    except Mistake as mistake:
        print(f"moldau: {mistake}", file=sys.stderr)
        return mistake.exit_code


def _run(arguments: Arguments) -> int:
    from pathlib import Path

    from moldau.common.settings.rows import SettingError
    from moldau.common.settings.sources import load

    file = arguments.single.get("--config")
    try:
        settings = load(
            file=Path(file) if file else None, environment=os.environ, overrides=overrides(arguments)
        )
        if "login.config" in os.environ.get("KAFKA_OPTS", ""):
            from moldau.broker.security.login.login_file import with_login_file

            settings = with_login_file(settings, os.environ)
    except OSError as problem:
        raise Mistake(f"cannot read the settings in {file}: {problem.strerror}", MISUSED) from None
    except SettingError as problem:
        raise Mistake(f"{problem.sentence}: correct it and start again", MISUSED) from None
    services = None
    if "--with" in arguments.single:
        from moldau.tools.commands.serve.services import services_of

        services = services_of(arguments.single["--with"], arguments.repeated["--set"])
    elif named := [each for each in arguments.repeated["--set"] if is_of_service(each)]:
        raise Mistake(f"--set {named[0]} is for a service that does not run: add --with", MISUSED)
    from moldau.tools.commands.serve.broker_program import run

    return run(settings, as_json="--json" in arguments.single, services=services)
