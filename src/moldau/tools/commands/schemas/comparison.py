"""Two schemas side by side: the lines that differ, and which of the two can read what the other wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.tools.commands.schemas.differences import line_differences
from moldau.tools.commands.schemas.requests import Registry, path_part
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.output import on_terminal

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


class Comparison(NamedTuple):
    """The result; the two lists of reasons are None where the schemas could not be compared here."""

    old: str
    new: str
    lines: Sequence[str]
    new_cannot_read_old: list[str] | None
    old_cannot_read_new: list[str] | None
    not_compared: str = ""


def compare(
    registry: Registry,
    conf: Mapping[str, str],
    subject: str,
    old: str | None,
    new: str | None,
    body: dict[str, Any] | None,
    file: str,
) -> Comparison:
    """Fetch what is named, and compare. CommandError."""
    path = f"/subjects/{path_part(subject)}/versions"
    if old is None:
        numbers = registry.get(path)
        old = str(numbers[-1] if body is not None else numbers[-2] if len(numbers) > 1 else 0)
        if old == "0":
            raise CommandError(f"{subject} has one version only: name a file with --file to compare it with")
    earlier = registry.get(f"{path}/{path_part(old)}", deleted=True)
    later = body if body is not None else registry.get(f"{path}/{path_part(new or 'latest')}", deleted=True)
    names = (f"{subject}, version {earlier['version']}", file or f"{subject}, version {later.get('version')}")
    lines = line_differences(earlier["schema"], later["schema"], *names)
    try:
        backward, forward = _differences(conf, earlier, later)
    except CommandError as problem:
        return Comparison(*names, lines, None, None, str(problem))
    return Comparison(*names, lines, backward, forward)


def _differences(
    conf: Mapping[str, str], earlier: Mapping[str, Any], later: Mapping[str, Any]
) -> tuple[list[str], list[str]]:
    """What keeps the later schema from reading what the earlier wrote, and the other way round."""
    from moldau.schemas.registry_client import RegistryClient, RegistryError
    from moldau.schemas.schema import Reference, SchemaText, SchemaType

    def text(row: Mapping[str, Any]) -> SchemaText:
        references = tuple(
            Reference(each["name"], each["subject"], each["version"]) for each in row.get("references") or ()
        )
        return SchemaText(SchemaType(row.get("schemaType", "AVRO")), row["schema"], references)

    try:
        client = RegistryClient(conf)
        old, new = client.parse(text(earlier)), client.parse(text(later))
    except (RegistryError, ValueError) as problem:
        raise CommandError(str(problem)) from None
    if old.schema_type is not new.schema_type:
        raise CommandError(f"one is {old.schema_type}, the other {new.schema_type}")
    try:
        found = new.differences(old), old.differences(new)
    except ValueError as problem:
        raise CommandError(str(problem)) from None
    shown = [[f"{each.kind} at {each.path}: {each.description}" for each in side] for side in found]
    return shown[0], shown[1]


def print_comparison(comparison: Comparison) -> None:
    """The lines, coloured on a terminal, then the verdicts."""
    if not comparison.lines:
        print(f"{comparison.old} and {comparison.new} read the same")
    for line in comparison.lines:
        _print_line(line)
    if comparison.not_compared:
        print(f"whether they fit was not checked: {comparison.not_compared}")
        return
    _print_verdict(comparison.new, comparison.old, comparison.new_cannot_read_old or [], "BACKWARD")
    _print_verdict(comparison.old, comparison.new, comparison.old_cannot_read_new or [], "FORWARD")


def _print_line(line: str) -> None:
    color = _COLORS.get(line[:1])
    if color is None or not on_terminal():
        print(line)
        return
    import typer

    typer.secho(line, fg=color, bold=line.startswith(("+++", "---")))


def _print_verdict(reader: str, writer: str, reasons: list[str], level: str) -> None:
    if not reasons:
        print(f"{level}: a reader with {reader} understands what was written with {writer}")
        return
    print(f"{level}: a reader with {reader} does not understand what was written with {writer}:")
    for reason in reasons:
        print(f"  {reason}")
