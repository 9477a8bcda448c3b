"""`moldau tokens`: list, create, renew, remove."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    Bootstrap,
    ClientSettings,
    Json,
    Timeout,
    parse_assignments,
)
from moldau.tools.shared.output import note, print_json, print_table

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.tools.commands.tokens.requests import Token

OF_THE_BROKER = -1

app = typer.Typer(
    no_args_is_help=True,
    help="Delegation tokens: short-lived credentials that a program hands to its workers (KIP-48).",
    epilog="Try: moldau tokens create --renewer User:scheduler   A client logs in with the token's id and "
    "HMAC as user name and password of SCRAM, and tokenauth=true. Tokens need delegation.token.secret.key on "
    "all brokers, and a client that has logged in by something else than a token.",
)

Hmac = Annotated[str, typer.Argument(metavar="HMAC", help="The token's HMAC, as `create` printed it.")]


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.add_typer(app, name="tokens")


@contextlib.contextmanager
def _cluster(bootstrap: str, client_settings: list[str] | None, timeout: float) -> Iterator[Cluster]:
    """The cluster; what it refuses, or that it cannot be reached, as CommandError."""
    from moldau.client.cluster import Cluster
    from moldau.client.errors import ClientError, OptionError
    from moldau.client.options import parse_options
    from moldau.common.protocol.errors import ErrorCode
    from moldau.tools.commands.tokens.requests import Refusal
    from moldau.tools.shared.connection import parse_address, require_listener

    given = parse_assignments(client_settings, "-X")
    require_listener([parse_address(part) for part in bootstrap.split(",") if part.strip()])
    limit_ms = str(int(timeout * 1000))
    try:
        options = parse_options(
            {
                "client.id": "moldau-cli",
                "default.api.timeout.ms": limit_ms,
                "request.timeout.ms": limit_ms,
                **given,
            }
        )
        with Cluster(bootstrap, options) as cluster:
            yield cluster
    except Refusal as refusal:
        name = next((each.name for each in ErrorCode if each == refusal.error_code), "unknown")
        advice = _ADVICE.get(name)
        sentence = f"{refusal.words.rstrip('.')} ({name})"
        raise CommandError(f"{sentence}: {advice}" if advice else sentence) from None
    except OptionError as problem:  # in the words of Spark's options, which begin with kafka.
        raise UsageError(str(problem).removeprefix("kafka.")) from None
    except (ClientError, OSError) as failure:
        raise CommandError(str(failure)) from None


_ADVICE = {
    "DELEGATION_TOKEN_AUTH_DISABLED": "set delegation.token.secret.key on all brokers, the same on each",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "log in by SASL or a TLS certificate, for example with "
    "-X security.protocol=SASL_SSL -X sasl.mechanism=SCRAM-SHA-512 ...",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "a token for somebody else needs the operation CREATE_TOKENS on "
    "that user: see `kafka-acls --user-principal`",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "only the token's owner and its renewers may do this",
    "DELEGATION_TOKEN_NOT_FOUND": "see `moldau tokens list`",
    "DELEGATION_TOKEN_EXPIRED": "create another one with `moldau tokens create`",
}


@app.command("list")
def list_(
    owners: Annotated[
        list[str] | None,
        typer.Option(
            "--owner", metavar="User:NAME", help="Only tokens that concern this user. May be repeated."
        ),
    ] = None,
    with_hmacs: Annotated[
        bool,
        typer.Option("--show-hmacs", help="Print the HMACs as well: whoever has one can log in with it."),
    ] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """List the tokens that you own, asked for, or may renew; others as far as you may see them."""
    from moldau.tools.commands.tokens.requests import describe

    named = [_principal(each, "--owner") for each in owners or ()]
    with _cluster(bootstrap, client_settings, timeout) as cluster:
        tokens = describe(cluster, named or None)
    _show(tokens, as_json=as_json, with_hmacs=with_hmacs)


@app.command()
def create(
    owner: Annotated[
        str, typer.Option("--owner", metavar="User:NAME", help="For whom; without it, for yourself.")
    ] = "",
    renewers: Annotated[
        list[str] | None,
        typer.Option("--renewer", metavar="User:NAME", help="Who may renew it too. May be repeated."),
    ] = None,
    lifetime: Annotated[
        str,
        typer.Option(
            "--max-lifetime",
            metavar="DURATION",
            help="After this it ends for good (90s, 12h, 7d); at most what the broker allows.",
        ),
    ] = "",
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Create a token, and print its HMAC: the password of SCRAM logins with it."""
    from moldau.tools.commands.tokens.requests import create

    named = [_principal(each, "--renewer") for each in renewers or ()]
    whose = _principal(owner, "--owner") if owner else None
    with _cluster(bootstrap, client_settings, timeout) as cluster:
        token = create(cluster, named, _period_ms(lifetime), whose)
    _show([token], as_json=as_json, with_hmacs=True)


@app.command()
def renew(
    hmac: Hmac,
    period: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long from now (90s, 12h); by default what the broker allows.",
        ),
    ] = "",
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Let a token expire later; never later than its maximum lifetime."""
    from moldau.tools.commands.tokens.requests import renew

    secret = _secret(hmac)
    with _cluster(bootstrap, client_settings, timeout) as cluster:
        moment_ms = renew(cluster, secret, _period_ms(period))
    if as_json:
        print_json({"expires": _moment(moment_ms)})
    else:
        print(f"the token expires at {_moment(moment_ms)}")


@app.command()
def remove(
    hmac: Hmac,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="DURATION", help="Not at once, but after this time (90s, 12h)."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Let a token expire. Clients that are logged in with it stay so until they have to log in again."""
    from moldau.tools.commands.tokens.requests import expire

    if after is not None and not after.strip():
        raise UsageError("--after is empty: write 90s or 12h, or leave it out to remove the token at once")
    secret = _secret(hmac)
    with _cluster(bootstrap, client_settings, timeout) as cluster:
        moment_ms = expire(cluster, secret, _period_ms(after or ""))
    gone = not after
    if as_json:
        print_json({"expires": None if gone else _moment(moment_ms), "removed": gone})
    else:
        print("the token was removed" if gone else f"the token expires at {_moment(moment_ms)}")


def _principal(text: str, option: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise UsageError(f"{option} {text!r} is no principal: write User:NAME")
    return text


def _secret(hmac: str) -> bytes:
    from moldau.tools.commands.tokens.requests import hmac_bytes

    try:
        return hmac_bytes(hmac)
    except ValueError:
        raise UsageError("the HMAC is not base64, as `moldau tokens create` prints it") from None


def _period_ms(text: str) -> int:
    from moldau.tools.shared.timestamps import parse_duration_ms

    return parse_duration_ms(text) if text else OF_THE_BROKER


def _show(tokens: list[Token], *, as_json: bool, with_hmacs: bool) -> None:
    rows: list[dict[str, Any]] = []
    for token in tokens:
        row: dict[str, Any] = {
            "token_id": token.token_id,
            "owner": token.owner,
            "requester": token.requester,
            "renewers": list(token.renewers),
            "issued": _moment(token.issued_ms),
            "expires": _moment(token.expires_ms),
            "ends": _moment(token.max_ms),
        }
        rows.append(row | {"hmac": token.hmac_text} if with_hmacs else row)
    if as_json:
        print_json(rows)
        return
    columns = {
        "token_id": "TOKEN-ID",
        "owner": "OWNER",
        "requester": "REQUESTER",
        "renewers": "RENEWERS",
        "issued": "ISSUED",
        "expires": "EXPIRES",
        "ends": "MAX-LIFETIME",
    }
    print_table(rows, columns | ({"hmac": "HMAC"} if with_hmacs else {}), empty="no delegation tokens")
    if with_hmacs and rows:
        note("keep the HMAC secret: it is a password")


def _moment(timestamp_ms: int) -> str:
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
