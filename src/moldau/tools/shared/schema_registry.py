"""The options by which commands find a schema registry, and one's settings from them."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.options import parse_assignments

DEFAULT_REGISTRY = "http://127.0.0.1:8081"

SchemaRegistry = Annotated[
    str,
    typer.Option(
        "--schema-registry",
        "-r",
        envvar="MOLDAU_SCHEMA_REGISTRY",
        metavar="URL",
        help="The schema registry's address (several, separated by commas, are tried in turn).",
        rich_help_panel="Connection",
    ),
]
RegistryOfRecords = Annotated[
    str,
    typer.Option(
        "--schema-registry",
        metavar="URL",
        help="Keys and values have schemas of this registry; in the input and output they are JSON.",
        rich_help_panel="Schemas",
    ),
]
RegistrySettings = Annotated[
    list[str] | None,
    typer.Option(
        "--registry-setting",
        "-R",
        metavar="NAME=VALUE",
        help="A setting of the registry's client, as Confluent's name it: -R basic.auth.user.info=me:secret. "
        "May be repeated.",
        rich_help_panel="Connection",
    ),
]


def registry_conf(url: str, settings: list[str] | None) -> dict[str, str]:
    """The settings of the registry's client. UsageError."""
    given = parse_assignments(settings, "-R")
    urls = [each.strip() for each in url.split(",")]
    if any(not each.startswith(("http://", "https://")) for each in urls):
        raise UsageError(
            f"--schema-registry {url.rpartition('@')[2]} is no address: write http://HOST:PORT or https://HOST:PORT"
        )
    return {**given, "schema.registry.url": url}
