"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from moldau.tools.shared.connection import Connection

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
        help="A client setting, as Java's clients or librdkafka name it: -X security.protocol=ssl. May be "
        "repeated.",
        rich_help_panel="Connection",
    ),
]
COMMAND_CONFIG_VARIABLE = "MOLDAU_COMMAND_CONFIG"
CommandConfig = Annotated[
    str | None,
    typer.Option(
        "--command-config",
        envvar=COMMAND_CONFIG_VARIABLE,
        metavar="FILE",
        help="A property file of client settings (TLS, SASL), as Kafka's tools take it.",
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
ServiceSettings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting of that file. May be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of a table.")]

DEFAULT_TIMEOUT_SECONDS = 15.0
DEFAULT_AT_ONCE = 50


class Connect(NamedTuple):
    """The cluster that the command line names, not connected yet: called, it is."""

    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    client_settings: ClientSettings = None
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS

    @property
    def timeout_seconds(self) -> float:
        """How long to wait for a broker's answer."""
        return self.timeout

    def __call__(self) -> Connection:
        """The connection. CommandError if no broker answers; UsageError."""
        from moldau.tools.shared.connection import Connection

        return Connection(*self)


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters may be groups of options: of a type that is a NamedTuple of options, all
    with defaults. They become the command's options in that place, those of Connect behind all others.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        each.name: each.annotation for each in signature.parameters.values() if _is_group(each.annotation)
    }
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        parameters += _options_of(groups[each.name]) if each.name in groups else [each]
    parameters.sort(key=lambda each: each.name in Connect._fields)

    @wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(*(given.pop(field) for field in group._fields))
        command(**given)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_field_defaults")


def _options_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [
        inspect.Parameter(name, kind, default=group._field_defaults[name], annotation=hints[name])
        for name in group._fields
    ]


def take_command_config(command: Any) -> None:
    """Give every command that takes client settings the option --command-config, a property file of them.

    They come before those of -X, which win; `bootstrap.servers` counts if no broker is named.
    """
    for each in getattr(command, "commands", {}).values():
        take_command_config(each)
    if all(each.name != "client_settings" for each in command.params):
        return
    named = next(at for at, each in enumerate(command.params) if each.name == "client_settings")
    command.params.insert(named, _command_config_option())
    invoke = command.invoke

    def with_file(context: Any) -> Any:
        path = context.params.pop("command_config", None)
        if path:
            _merge_file(context, path)
        return invoke(context)

    command.invoke = with_file


def _command_config_option() -> Any:
    """The option as typer makes it of a command that has it."""

    def template(command_config: CommandConfig = None) -> None: ...

    template.__annotations__["command_config"] = CommandConfig
    only = typer.Typer()
    only.command()(template)
    made: Any = typer.main.get_command(only)
    return next(each for each in made.params if each.name == "command_config")


def _merge_file(context: Any, path: str) -> None:
    settings = read_client_file(path)
    servers = settings.pop("bootstrap.servers", None)
    named = context.get_parameter_source("bootstrap")
    if servers and named is not None and named.name == "DEFAULT":
        context.params["bootstrap"] = servers
    words = [f"{name}={value}" for name, value in settings.items()]
    context.params["client_settings"] = [*words, *(context.params.get("client_settings") or ())]


def read_client_file(path: str) -> dict[str, str]:
    """The settings of --command-config. UsageError."""
    from pathlib import Path

    return read_property_file(Path(path), "--command-config")


def read_property_file(path: Path, option: str) -> dict[str, str]:
    """The settings of the file that an option names, `${file:...}` and the like filled in. UsageError."""
    import os

    from moldau.common.settings.providers import read_settings
    from moldau.common.settings.rows import SettingError
    from moldau.tools.shared.errors import UsageError

    try:
        return read_settings(path, os.environ)
    except OSError as problem:
        raise UsageError(f"{option} {path} cannot be read: {problem.strerror}") from None
    except SettingError as problem:
        raise UsageError(f"{option} {path}: {problem.sentence}") from None
    except ValueError as problem:
        raise UsageError(f"{option} {path} is not a property file: {problem}") from None


def parse_assignments(assignments: list[str] | None, option: str) -> dict[str, str]:
    """Turn repeated NAME=VALUE words into a mapping; `option` is named in the error."""
    from moldau.tools.shared.errors import UsageError

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
