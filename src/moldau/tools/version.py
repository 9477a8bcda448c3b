"""`moldau version`: the versions of Moldau, Python and librdkafka; C kernels that are missing or stale."""

from __future__ import annotations

import platform

import typer

from moldau.tools.shared.options import Json
from moldau.tools.shared.output import print_json


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("version")(version)


def version(as_json: Json = False) -> None:
    """Print the versions of Moldau, Python and librdkafka, and which C kernels are missing or stale."""
    from confluent_kafka import libversion

    import moldau
    from moldau.common.core.kernels import REBUILD, missing, stale

    without, old = ([name.removeprefix("moldau.") for name in names] for names in (missing(), stale()))
    versions = {
        "moldau": moldau.__version__,
        "python": platform.python_version(),
        "librdkafka": libversion()[0],
    }
    if as_json:
        print_json({**versions, "missing_kernels": without, "stale_kernels": old})
        return
    print(", ".join(f"{name} {number}" for name, number in versions.items()))
    if without:
        print(f"not compiled, and slower: {', '.join(without)}; install again where there is a C compiler")
    if old:
        print(f"from another version of the source, and not used: {', '.join(old)}; build again: {REBUILD}")
