"""`moldau schemas`: list, show, register, check, diff, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Json, connected, teach
from moldau.tools.shared.output import headings, note, print_json, print_rows, print_table
from moldau.tools.shared.schema_registry import (
    DEFAULT_REGISTRY,
    RegistrySettings,
    SchemaRegistry,
    registry_conf,
)

if TYPE_CHECKING:
    from moldau.tools.commands.schemas.requests import Registry

app = typer.Typer(
    no_args_is_help=True,
    help="The schemas in a schema registry (ours, or any with Confluent's paths).",
    epilog="Try: moldau schemas register orders-value order.avsc   then: moldau schemas show orders-value",
)

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject, for example orders-value.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="The schema's file; - is standard input.")]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", "-t", metavar="TYPE", help="avro, json or protobuf; else by the file's name and text."
    ),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="What a name in the schema refers to. May be repeated.",
    ),
]
Normalize = Annotated[
    bool, typer.Option("--normalize", help="Schemas that differ only in what has no meaning are one.")
]
Version = Annotated[
    str | None, typer.Option("--version", "-v", metavar="N", help="A version's number; else the latest.")
]

REGISTER_HELP = """Register a schema, or find it registered; prints its id and version.

Examples:

* moldau schemas register orders-value order.avsc
* moldau schemas register orders-value order.proto --reference money.proto=money-value:1
"""

CHECK_HELP = """Check whether a schema could be registered, and name what keeps it out.

The exit code is 0 if it could, 1 if it could not. Nothing is registered.

Examples:

* moldau schemas check orders-value order.avsc
* moldau schemas check orders-value order.avsc --version 3
"""

DIFF_HELP = """Show how two versions of a subject differ, or a file from the latest version.

Examples:

* moldau schemas diff orders-value              the latest version and the one before
* moldau schemas diff orders-value 1 3
* moldau schemas diff orders-value --file order.avsc
"""

DELETE_HELP = """Delete a subject, or one version of it.

It is hidden first, and its ids still answer, since records name them; with --permanent what is hidden goes
for good.

Examples:

* moldau schemas delete orders-value --version 2
* moldau schemas delete orders-value   then: moldau schemas delete orders-value --permanent
"""


class RegistryAt(NamedTuple):
    """The registry that the command line names; called, its client."""

    schema_registry: SchemaRegistry = DEFAULT_REGISTRY
    registry_settings: RegistrySettings = None

    def conf(self) -> dict[str, str]:
        """The settings of its client. UsageError."""
        return registry_conf(*self)

    def __call__(self) -> Registry:
        """UsageError: a setting is wrong."""
        from moldau.tools.commands.schemas.requests import Registry

        return Registry(self.conf())


@app.command("list")
@connected
def list_schemas(
    prefix: Annotated[str, typer.Argument(metavar="[PREFIX]", help="Only subjects that begin so.")] = "",
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also what was deleted, but not for good.")
    ] = False,
    registry_at: RegistryAt = RegistryAt(),
    as_json: Json = False,
) -> None:
    """List the subjects with their latest versions."""
    registry = registry_at()
    query = {"subjectPrefix": prefix or ":*:", "deleted": deleted, "latestOnly": True}
    rows = [
        {
            "subject": each["subject"],
            "version": each["version"],
            "id": each["id"],
            "type": each.get("schemaType", "AVRO"),
            "state": "deleted" if each.get("deleted") else "",
        }
        for each in registry.pages("/schemas", **query)
    ]
    if as_json:
        print_json(rows)
        return
    columns = headings("subject version id type", version="LATEST-VERSION")
    if deleted:
        columns["state"] = "STATE"
    nothing = f"no subject begins with {prefix}" if prefix else "no schema is registered"
    print_table(rows, columns, empty=nothing)


@app.command()
@connected
def show(
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]", help="The subject.")] = None,
    version: Version = None,
    schema_id: Annotated[int | None, typer.Option("--id", metavar="ID", help="A schema by its id.")] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="List the subject's versions instead.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Only the schema's text, as it is stored.")] = False,
    registry_at: RegistryAt = RegistryAt(),
    as_json: Json = False,
) -> None:
    """Show a schema, with its id, version, references, metadata and rules."""
    from moldau.tools.commands.schemas.requests import path_part

    if (subject is None) == (schema_id is None):
        raise UsageError("name either a subject or --id ID")
    registry = registry_at()
    if versions and subject is not None:
        _show_versions(registry, subject, as_json)
        return
    if subject is None:
        found = {"id": schema_id, **registry.get(f"/schemas/ids/{schema_id}")}
    else:
        found = registry.get(f"/subjects/{path_part(subject)}/versions/{path_part(version or 'latest')}")
    if as_json:
        print_json(found)
    elif raw:
        print(found["schema"])
    else:
        _print_schema(found, subject)


def _show_versions(registry: Any, subject: str, as_json: bool) -> None:
    from moldau.tools.commands.schemas.requests import path_part

    path = f"/subjects/{path_part(subject)}/versions"
    there = registry.get(path)
    rows = [
        {"version": number, "state": "" if number in there else "deleted"}
        for number in registry.get(path, deleted=True)
    ]
    print_rows(as_json, rows, headings("version state"))


def _print_schema(found: dict[str, Any], subject: str | None) -> None:
    from moldau.tools.commands.schemas.differences import pretty

    place = f"{found.get('subject', subject)}, version {found['version']}, " if subject else ""
    note(f"{place}id {found['id']}, {found.get('schemaType', 'AVRO')}")
    for reference in found.get("references") or ():
        note(f"refers by {reference['name']} to {reference['subject']}, version {reference['version']}")
    for name in ("metadata", "ruleSet"):
        if found.get(name):
            import json

            note(f"{name}: {json.dumps(found[name], ensure_ascii=False)}")
    print(pretty(found["schema"]))


@app.command("register", help=teach(REGISTER_HELP))
@connected
def register_schema(
    subject: Subject,
    file: File,
    schema_type: Type = None,
    references: References = None,
    normalize: Normalize = False,
    registry_at: RegistryAt = RegistryAt(),
    as_json: Json = False,
) -> None:
    """Register a schema (see REGISTER_HELP)."""
    from moldau.tools.commands.schemas.files import request_body
    from moldau.tools.commands.schemas.requests import RegistryRefusal, path_part

    body = request_body(file, schema_type, references)
    registry = registry_at()
    path = f"/subjects/{path_part(subject)}"
    try:
        answer = registry.post(f"{path}/versions", body, normalize=normalize)
    except RegistryRefusal as refusal:
        if refusal.error_code not in (409, 40901):
            raise
        _explain(registry, subject, None, body, normalize, as_json)
        raise CommandError(
            f"{file} was not registered in {subject}: it does not fit earlier versions"
        ) from None
    if "version" not in answer:  # registries before 7.4 answer with the id alone
        answer = {**registry.post(path, body, normalize=normalize), **answer}
    if as_json:
        print_json({"subject": subject, "id": answer["id"], "version": answer["version"]})
    else:
        print(f"{subject}: version {answer['version']}, id {answer['id']}")


@app.command(help=teach(CHECK_HELP))
@connected
def check(
    subject: Subject,
    file: File,
    schema_type: Type = None,
    references: References = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", "-v", metavar="N", help="Against this version; else those that the level names."
        ),
    ] = None,
    normalize: Normalize = False,
    registry_at: RegistryAt = RegistryAt(),
    as_json: Json = False,
) -> None:
    """Check a schema against what is registered (see CHECK_HELP)."""
    from moldau.tools.commands.schemas.files import request_body

    body = request_body(file, schema_type, references)
    registry = registry_at()
    if not _explain(registry, subject, version, body, normalize, as_json):
        raise typer.Exit(1)


def _explain(
    registry: Any, subject: str, version: str | None, body: dict[str, Any], normalize: bool, as_json: bool
) -> bool:
    """Ask whether the schema fits, and print why not; whether it does."""
    from moldau.tools.commands.schemas.differences import read_messages
    from moldau.tools.commands.schemas.requests import RegistryRefusal, path_part

    path = f"/compatibility/subjects/{path_part(subject)}/versions"
    path += f"/{path_part(version)}" if version else ""
    try:
        answer = registry.post(path, body, normalize=normalize, verbose=True)
    except RegistryRefusal as refusal:
        if version is not None or refusal.error_code != 40401:
            raise
        answer = {"is_compatible": True, "messages": []}  # a new subject takes any schema
    fits = bool(answer["is_compatible"])
    if as_json:
        print_json(answer)
        return fits
    if fits:
        print(f"it fits {subject}")
        return True
    verdict = read_messages(answer.get("messages") or ())
    about = f", version {verdict.version}" if verdict.version is not None else ""
    level = f" (level {verdict.level}: {verdict.level_in_words})" if verdict.level_in_words else ""
    print(f"it does not fit {subject}{about}{level}")
    for each in verdict.differences:
        print(f"  {each.kind}: {each.description}")
        if each.additional and each.additional not in each.description:
            print(f"      {each.additional}")
        if each.remedy:
            print(f"      what helps: {each.remedy}")
    for line in verdict.other:
        print(f"  {line}")
    return False


@app.command(help=teach(DIFF_HELP))
@connected
def diff(
    subject: Subject,
    old: Annotated[str | None, typer.Argument(metavar="[OLD]", help="The earlier version.")] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="The later version; else the latest.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="FILE", help="A file instead of the later version.")
    ] = None,
    registry_at: RegistryAt = RegistryAt(),
    as_json: Json = False,
) -> None:
    """Show how two schemas differ (see DIFF_HELP)."""
    from moldau.tools.commands.schemas.comparison import compare, print_comparison
    from moldau.tools.commands.schemas.files import request_body

    if file is not None and new is not None:
        raise UsageError("name either a later version or --file FILE")
    for version in (old, new):
        if version is not None and version not in ("latest", "-1") and not version.isdecimal():
            raise UsageError(f"{version!r} is no version: write a number or `latest`, or --file {version}")
    registry = registry_at()
    conf = registry_at.conf()
    body = request_body(file, None, None) if file is not None else None
    comparison = compare(registry, conf, subject, old, new, body, file or "")
    if as_json:
        print_json(comparison._asdict())
    else:
        print_comparison(comparison)


@app.command(help=teach(DELETE_HELP))
@connected
def delete(
    subject: Subject,
    version: Annotated[
        str | None,
        typer.Option("--version", "-v", metavar="N", help="Only this version; else the whole subject."),
    ] = None,
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For good, after it was deleted without this.")
    ] = False,
    registry_at: RegistryAt = RegistryAt(),
    as_json: Json = False,
) -> None:
    """Delete a subject or a version (see DELETE_HELP)."""
    from moldau.tools.commands.schemas.requests import path_part

    if not subject.strip() or (version is not None and not version.strip()):
        raise UsageError("the subject or --version is empty: leave --version out to delete the whole subject")
    registry = registry_at()
    path = f"/subjects/{path_part(subject)}" + (f"/versions/{path_part(version)}" if version else "")
    answer = registry.delete(path, permanent=permanent)
    versions = answer if isinstance(answer, list) else [answer]
    if as_json:
        print_json({"subject": subject, "versions": versions, "permanent": permanent})
    else:
        named = ", ".join(map(str, versions))
        print(f"{subject}: version {named} deleted{' for good' if permanent else ''}")
