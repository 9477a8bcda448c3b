"""`moldau version`: which Moldau, Python and client library this is, and whether its C kernels are there."""

from __future__ import annotations

import platform

import typer

from moldau.cli.options import Json
from moldau.cli.output import print_json


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.command("version")(version)


def version(as_json: Json = False) -> None:
    """Print the versions of Moldau, Python and librdkafka, and what decodes records and compacts logs."""
    from confluent_kafka import libversion

    import moldau
    from moldau.client.columns import decoder_name
    from moldau.log.compaction.kernel import kernel_name

    facts = {
        "moldau": moldau.__version__,
        "python": platform.python_version(),
        "librdkafka": libversion()[0],
        # "python" where there was no C compiler at the installation
        "decoder": decoder_name(),
        "compaction": kernel_name(),
    }
    if as_json:
        print_json(facts)
    else:
        print(", ".join(f"{name} {number}" for name, number in facts.items()))
