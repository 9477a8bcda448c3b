"""`moldau kafka-home DIR`: a folder as a Kafka download has it.

    DIR/bin/kafka-topics.sh, DIR/bin/kafka-topics, ...   three lines of shell each, that work from any place;
                                                   a retired tool's says what to type instead
    DIR/config/server.properties, ...                  short, commented (config_files.py)
    DIR/.moldau-kafka-home                              says that the folder is ours

A script names the Python that laid it out, so that another python3 on the PATH is no matter; -P keeps modules
of the folder one stands in from being imported instead of ours.

Run again, it renews the scripts and leaves config files that were changed as they are. A folder with
something else in it is refused; there is no --force: what one would lose is not known here.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.kafka.tools import RETIRED, TOOLS
from moldau.tools.shared.errors import CommandError

MARK = ".moldau-kafka-home"
HELP = """Lay out a folder as a Kafka download has it, with Kafka's command lines served by Moldau.

Examples:

* moldau kafka-home kafka
* kafka/bin/kafka-topics.sh --bootstrap-server localhost:9092 --list
* export PATH=$PWD/kafka/bin:$PATH
"""


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    from moldau.tools.shared.options import teach

    root.command("kafka-home", help=teach(HELP))(kafka_home)


def kafka_home(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make, or to renew.")],
) -> None:
    """Lay out the folder (see HELP)."""
    kept = lay_out(folder)
    example = shlex.quote(str(folder / "bin" / "kafka-topics.sh"))
    print(f"Laid out {folder}: {len(TOOLS)} tools in bin/. Try: {example} --help")
    for path in kept:
        print(f"Left as you changed it: {path}")


def lay_out(folder: Path) -> list[Path]:
    """Make or renew the folder; return config files that were left as the user changed them. CommandError if
    the folder is somebody else's.
    """
    if "," in str(folder.absolute()):
        raise CommandError(
            f"{folder.absolute()} has a comma, which parts folders in log.dirs: name a folder without one"
        )
    try:
        _require_ours(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_text("Laid out by `moldau kafka-home`; it may be run again.\n")
        (folder / "bin").mkdir(exist_ok=True)
        for name in (*TOOLS, *RETIRED):
            for script in (name, f"{name}.sh"):
                write_script(folder / "bin" / script, script)
        return _write_config(folder)
    except OSError as problem:
        raise CommandError(f"{problem.filename or folder} cannot be written: {problem.strerror}") from None


def _require_ours(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file: name a folder that does not exist yet")
    if folder.is_dir() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise CommandError(
            f"{folder} holds something else and was left as it is: name a folder that does not exist yet"
        )


def write_script(path: Path, name: str) -> None:
    """Write one script, whole or not at all: somebody may be running the old one."""
    text = (
        "#!/bin/sh\n"
        "# Kafka's command line, served by Moldau; written by `moldau kafka-home`.\n"
        f'exec {shlex.quote(sys.executable)} -P -m moldau.tools.kafka {name} "$@"\n'
    )
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.chmod(0o755)
    new.replace(path)


def _write_config(folder: Path) -> list[Path]:
    from moldau.tools.kafka.homes.config_files import config_files
    from moldau.tools.kafka.homes.home_config import write_config

    return write_config(folder / "config", config_files(folder))
