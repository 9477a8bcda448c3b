"""The typer application for every command except a running `serve`.

`COMMANDS` is the table of all commands. A command's module has `app`, the commands under one name, or
`register(root)`, which adds it to the application. Only the module of the command that was named is imported;
all of them for help and completion. A `CommandError` becomes one sentence on standard error and an exit code,
never a traceback.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from moldau.tools.shared.errors import CommandError, error_name, exit_code, explain_kafka_failure
from moldau.tools.shared.options import take_command_config

COMMANDS: dict[str, str] = {
    "serve": "moldau.tools.commands.serve.help",
    "cluster": "moldau.tools.cluster.command",
    "zookeeper": "moldau.tools.commands.zookeeper.command",
    "topics": "moldau.tools.commands.topics.command",
    "produce": "moldau.tools.commands.records.produce",
    "consume": "moldau.tools.commands.records.consume",
    "registry": "moldau.tools.commands.registry.command",
    "schemas": "moldau.tools.commands.schemas.command",
    "connect": "moldau.tools.commands.connect.command",
    "groups": "moldau.tools.commands.groups.command",
    "users": "moldau.tools.commands.users.command",
    "quotas": "moldau.tools.commands.quotas.command",
    "transactions": "moldau.tools.commands.transactions.command",
    "mirror": "moldau.tools.commands.mirror.command",
    "perf": "moldau.tools.commands.perf.command",
    "streams": "moldau.tools.commands.streams.command",
    "brokers": "moldau.tools.commands.brokers.command",
    "configs": "moldau.tools.commands.configs.command",
    "security": "moldau.tools.commands.security.command",
    "acls": "moldau.tools.commands.acls.command",
    "tokens": "moldau.tools.commands.tokens.command",
    "dump-log": "moldau.tools.commands.dump.command",
    "status": "moldau.tools.commands.status.command",
    "doctor": "moldau.tools.doctor.command",
    "agent": "moldau.tools.commands.agent.command",
    "rest": "moldau.tools.commands.rest.command",
    "lag": "moldau.tools.commands.lag.command",
    "console": "moldau.tools.commands.console.command",
    "demo": "moldau.tools.demo.command",
    "demo-connect": "moldau.tools.demo.connect.command",
    "kafka-home": "moldau.tools.kafka.homes.home",
    "version": "moldau.tools.version",
}
"""Every command and its module, in the order of the help."""

READER_GONE = 141
"""The exit code when the reader of the output closes the pipe, as a shell reports SIGPIPE."""

EPILOG = (
    "Client commands find the broker by --bootstrap-server, else MOLDAU_BOOTSTRAP, else 127.0.0.1:9092.\n\n"
    "Try: moldau serve --data ./data   then: echo hello | moldau produce greetings   "
    "and: moldau consume greetings -e"
)


def build(names: Sequence[str]) -> typer.Typer:
    """Return the application with the commands in `names`."""
    root = typer.Typer(
        name="moldau",
        help="Kafka, installable with pip: a broker for every Kafka client, and the commands around it.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_global_options)
    for name in names:
        module = importlib.import_module(COMMANDS[name])
        if hasattr(module, "register"):
            module.register(root)
        else:
            root.add_typer(module.app, name=name)
    return root


def without_flag_types(command: Any) -> Any:
    """Make help show flags without a value type (<bool>)."""
    listed = command.get_params

    def get_params(context: Any) -> Any:
        parameters = listed(context)
        for each in parameters:
            if getattr(each, "is_flag", False) and each.metavar is None:
                each.metavar = ""
        return parameters

    command.get_params = get_params
    for each in getattr(command, "commands", {}).values():
        without_flag_types(each)
    return command


def _say_version(wanted: bool) -> None:
    """Handle --version before any command is required."""
    if wanted:
        import moldau

        typer.echo(f"moldau {moldau.__version__}")
        raise typer.Exit(0)


def _global_options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options before the command's name; --version is handled by its callback."""


def run(words: Sequence[str]) -> int:
    """Run the command line `words` and return its exit code."""
    named = (
        [words[0]]
        if words and words[0] in COMMANDS and "_MOLDAU_COMPLETE" not in os.environ
        else list(COMMANDS)
    )
    try:
        try:
            command: Any = typer.main.get_command(build(named))
            take_command_config(command)
            without_flag_types(command)(args=list(words), prog_name="moldau")
        finally:
            sys.stdout.flush()  # here, where a reader that went away is no surprise
    except SystemExit as finished:
        if isinstance(finished.__context__, BrokenPipeError):  # typer saw it first, and calls it a failure
            return READER_GONE
        return finished.code if isinstance(finished.code, int) else 1
    except CommandError as failure:
        _complain(str(failure))
        return failure.exit_code
    except BrokenPipeError:
        # The reader of our output (`head`, a pager) went away: nothing is wrong, and nobody is left to tell.
        # Standard output is replaced so that the interpreter does not fail when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt:
        return 130
    except Exception as failure:
        message = explain_kafka_failure(failure)
        if message is None:
            raise
        _complain(_with_cause(message, failure))
        return exit_code(failure)
    return 0


def _with_cause(message: str, failure: Exception) -> str:
    """Add what the cluster says about a failure that says little."""
    from moldau.tools.shared import connection
    from moldau.tools.shared.causes import why_no_topic, with_cause

    if (topic := getattr(failure, "topic", "")) and connection.latest is not None:
        return why_no_topic(connection.latest, topic) or message
    return with_cause(message, error_name(failure), connection.latest)


def _complain(message: str) -> None:
    print(f"moldau: {message}", file=sys.stderr)
