"""The options that the commands of HTTP services share, and the property file that they read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from moldau.tools.shared.errors import UsageError

ServiceSettings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting of that file. May be repeated."),
]


def properties_of(path: Path | None) -> dict[str, str]:
    """The settings of a property file, with `${file:...}` and the like filled in; none without a file.
    UsageError.
    """
    if path is None:
        return {}
    from moldau.common.core.properties import parse_properties
    from moldau.common.settings.providers import DECLARED, fill_in
    from moldau.common.settings.rows import SettingError

    try:
        found = fill_in(parse_properties(path.read_text(encoding="utf-8")), os.environ)
    except OSError as problem:
        raise UsageError(f"--config {path} cannot be read: {problem.strerror}") from None
    except SettingError as problem:
        raise UsageError(f"--config {path}: {problem.sentence}") from None
    except ValueError as problem:
        raise UsageError(f"--config {path} is not a property file: {problem}") from None
    return {name: value for name, value in found.items() if not name.startswith(DECLARED)}
