"""`moldau streams run`: command-line options over the app's own, live progress, exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.tools.commands.streams.screen import StreamsScreen
from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.options import parse_assignments
from moldau.tools.shared.output import note

if TYPE_CHECKING:
    from moldau.streams import App
    from moldau.streams.spark_log import SparkLog


@dataclass(frozen=True)
class RunOptions:
    """Options of the command line; None: as the app says."""

    master: str | None = None
    once: bool = False
    checkpoints: str | None = None
    app_name: str | None = None
    delivery: str | None = None
    spark: tuple[str, ...] = ()
    as_json: bool = False
    bootstrap: str | None = None
    registry: str | None = None
    registry_settings: tuple[str, ...] = ()
    client_settings: tuple[str, ...] = ()


def run_file(file: Path, options: RunOptions) -> None:
    """Load the file's app and run it. CommandError if it cannot run, or a flow has failed."""
    from moldau.streams import App
    from moldau.streams.errors import require_spark
    from moldau.streams.launching import started_session
    from moldau.streams.loading import load_app
    from moldau.streams.runner import run_app
    from moldau.tools.commands.streams.command import said_as_sentences

    with said_as_sentences():
        require_spark()
        with ExitStack() as stack:
            spark_log = stack.enter_context(kept_if_it_fails(file.stem))

            def start_session() -> None:
                settings = parse_assignments(list(options.spark), "--spark")
                stack.enter_context(
                    started_session(App(file.stem, settings=settings), options.master, spark_log)
                )

            app = load_app(file, options.app_name, start_session)
            override(app, options)
            flows = f"{len(app.flows)} flow{'' if len(app.flows) == 1 else 's'}"
            where = options.master or "Spark in this process"
            note(
                f"app {app.name}: {flows}, {app.bootstrap_servers}, checkpoints in {app.checkpoints}, "
                f"{where}, whose messages go to {spark_log.path}"
            )
            screen = stack.enter_context(StreamsScreen(as_json=options.as_json))
            run_app(
                app,
                once=options.once,
                master=options.master,
                say=screen.say,
                watch=screen.show,
                spark_log=spark_log,
            )


@contextmanager
def kept_if_it_fails(name: str) -> Iterator[SparkLog]:
    """A file for Spark's messages: removed after success, named in the error after a failure."""
    from moldau.streams.errors import AppError, StreamsError
    from moldau.streams.spark_log import SparkLog

    log = SparkLog(name)
    try:
        yield log
    except AppError:
        log.remove()  # a mistake in the app, of which Spark knows nothing
        raise
    except StreamsError as failure:
        if log.is_empty:
            log.remove()
            raise
        log.close()
        raise StreamsError(f"{failure}; Spark's messages are in {log.path}") from failure
    except BaseException:
        log.close()
        note(f"Spark's messages are in {log.path}")
        raise
    log.remove()


def override(app: App, options: RunOptions) -> None:
    """Apply the command line's options to the app."""
    from moldau.streams.app import DELIVERIES
    from pyspark_moldau.schema_options import is_registry_option

    if options.bootstrap:
        app.bootstrap_servers = options.bootstrap
    if options.registry:
        app.registry = options.registry
    if options.checkpoints:
        app.checkpoints = options.checkpoints
    if options.delivery:
        if options.delivery not in DELIVERIES:
            raise UsageError(f"--delivery {options.delivery} is not one of {', '.join(DELIVERIES)}")
        app.delivery = options.delivery
    app.settings.update(parse_assignments(list(options.spark), "--spark"))
    for name, value in parse_assignments(list(options.client_settings), "-X").items():
        app.options[f"kafka.{name.removeprefix('kafka.')}"] = value
    for name, value in parse_assignments(list(options.registry_settings), "-R").items():
        app.options[name if is_registry_option(name.lower()) else f"schema.registry.{name}"] = value
