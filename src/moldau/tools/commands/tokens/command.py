"""`moldau tokens`: list, create, renew, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.tools.shared.errors import UsageError
from moldau.tools.shared.options import Connect, Json, connected
from moldau.tools.shared.output import headings, note, print_json, print_rows

if TYPE_CHECKING:
    from moldau.client.admin.tokens import Token

OF_THE_BROKER = -1

app = typer.Typer(
    no_args_is_help=True,
    help="Delegation tokens: short-lived credentials that a program hands to its workers (KIP-48).",
    epilog="Try: moldau tokens create --renewer User:scheduler   A client logs in with the token's id and "
    "HMAC as user name and password of SCRAM, and tokenauth=true. Tokens need delegation.token.secret.key on "
    "all brokers, and a client that has logged in by something else than a token.",
)

Hmac = Annotated[str, typer.Argument(metavar="HMAC", help="The token's HMAC, as `create` printed it.")]


@app.command("list")
@connected
def list_(
    connect: Connect,
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
) -> None:
    """List the tokens that you own, asked for, or may renew; others as far as you may see them."""
    from moldau.client.admin.tokens import describe_tokens

    named = [_principal(each, "--owner") for each in owners or ()]
    tokens = describe_tokens(connect().cluster(), named or None)
    _show(tokens, as_json=as_json, with_hmacs=with_hmacs)


@app.command()
@connected
def create(
    connect: Connect,
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
) -> None:
    """Create a token, and print its HMAC: the password of SCRAM logins with it."""
    from moldau.client.admin.tokens import create_token

    named = [_principal(each, "--renewer") for each in renewers or ()]
    whose = _principal(owner, "--owner") if owner else None
    token = create_token(connect().cluster(), named, _period_ms(lifetime), whose)
    _show([token], as_json=as_json, with_hmacs=True)


@app.command()
@connected
def renew(
    connect: Connect,
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
) -> None:
    """Let a token expire later; never later than its maximum lifetime."""
    from moldau.client.admin.tokens import renew_token

    secret = _secret(hmac)
    moment_ms = renew_token(connect().cluster(), secret, _period_ms(period))
    if as_json:
        print_json({"expires": _moment(moment_ms)})
    else:
        print(f"the token expires at {_moment(moment_ms)}")


@app.command()
@connected
def remove(
    connect: Connect,
    hmac: Hmac,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="DURATION", help="Not at once, but after this time (90s, 12h)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Let a token expire. Clients that are logged in with it stay so until they have to log in again."""
    from moldau.client.admin.tokens import expire_token

    if after is not None and not after.strip():
        raise UsageError("--after is empty: write 90s or 12h, or leave it out to remove the token at once")
    secret = _secret(hmac)
    moment_ms = expire_token(connect().cluster(), secret, _period_ms(after or ""))
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
    from moldau.client.admin.tokens import hmac_bytes

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
    columns = headings("token_id owner requester renewers issued expires ends", ends="MAX-LIFETIME")
    print_rows(
        as_json, rows, columns | ({"hmac": "HMAC"} if with_hmacs else {}), empty="no delegation tokens"
    )
    if with_hmacs and rows and not as_json:
        note("keep the HMAC secret: it is a password")


def _moment(timestamp_ms: int) -> str:
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
