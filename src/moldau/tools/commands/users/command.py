"""`moldau users`: the users who log in with SCRAM: list, add (or change the password), remove.

Passwords are salted here ; the broker never sees one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.client.errors import error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import headings, print_rows

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
SALT_BYTES = 24

app = typer.Typer(
    no_args_is_help=True,
    help="Show, add and remove the users who log in with SCRAM.",
    epilog="Try: moldau users add alice   and: moldau users list",
)

Names = Annotated[list[str] | None, typer.Argument(metavar="USER", help="Only these; default: all.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", "-m", metavar="NAME", help=f"{SHA_256} or {SHA_512}; may be repeated."),
]


@app.command("list")
@connected
def list_(connect: Connect, users: Names = None, as_json: Json = False) -> None:
    """List users with their mechanisms and iterations."""

    found = _described(connect())
    missing = [each for each in users or () if each not in found]
    if missing:
        raise CommandError(f"there is no user {missing[0]!r}: list them with `moldau users list`")
    rows: list[dict[str, Any]] = [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user in sorted(users or found)
        for mechanism, iterations in sorted(found[user].items())
    ]
    columns = headings("user mechanism iterations")
    print_rows(as_json, rows, columns, empty="no users")


@app.command()
@connected
def add(
    connect: Connect,
    user: Annotated[str, typer.Argument(help="The user's name.")],
    mechanisms: Mechanisms = None,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="Read the password from here; - is the input."),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="How often the password is hashed."),
    ] = ITERATIONS_MIN,
) -> None:
    """Add a user, or give it another password. The password is asked for, or read from a file."""
    from moldau.client.admin.scram import ScramCredential, alter_scram_users

    if not user:
        raise UsageError("the name of a user cannot be empty")
    chosen = _chosen(mechanisms) or [SHA_256, SHA_512]
    password = _password(user, password_file)
    cluster = connect().cluster()
    for each in chosen:  # Kafka takes one change of a user in a request
        credential = ScramCredential(each, iterations, os.urandom(SALT_BYTES), password)
        alter_scram_users(cluster, {user: [credential]}, {})
    print(f"User {user} logs in with {' or '.join(chosen)}.")


@app.command()
@connected
def remove(
    connect: Connect,
    user: Annotated[str, typer.Argument(help="The user's name.")],
    mechanisms: Mechanisms = None,
) -> None:
    """Remove a user, or only what it needs for one mechanism. Its connections last until they end."""
    from moldau.client.admin.scram import alter_scram_users

    connection = connect()
    held = _described(connection).get(user, {})
    if not held:
        raise CommandError(f"there is no user {user!r}: list them with `moldau users list`")
    chosen = _chosen(mechanisms) or list(held)
    for each in chosen:
        if each not in held:
            raise CommandError(f"the user {user!r} does not log in with {each}, only with {', '.join(held)}")
    for each in chosen:
        alter_scram_users(connection.cluster(), {}, {user: [each]})
    print(f"Removed {', '.join(chosen)} of {user}." if set(chosen) != set(held) else f"Removed user {user}.")


def _chosen(mechanisms: list[str] | None) -> list[str]:
    chosen = list(dict.fromkeys(each.upper() for each in mechanisms or ()))
    for each in chosen:
        if each not in (SHA_256, SHA_512):
            raise UsageError(f"--mechanism {each} is not one of {SHA_256}, {SHA_512}")
    return chosen


def _password(user: str, file: Path | None) -> str:
    if file is None:
        password: str = typer.prompt(
            f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True
        )
    elif str(file) == "-":
        password = typer.get_text_stream("stdin").readline().rstrip("\r\n")
    else:
        try:
            password = file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
            raise CommandError(f"the password cannot be read from {file}: {reason}") from None
    if not password:
        raise CommandError("the password is empty")
    return password


def _described(connection: Connection) -> dict[str, dict[str, int]]:
    """Iterations by mechanism, of every user. CommandError."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.admin.scram import find_scram_users

    try:
        return find_scram_users(connection.cluster())
    except KafkaProblem as problem:
        if problem.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        raise CommandError(
            f"{error_words(problem.error_code)}; log in as a super user, or as a principal with DESCRIBE on "
            "the cluster, with --command-config or -X"
        ) from None
