"""kafka-delegation-tokens: creates, renews, ends and describes delegation tokens (KIP-48).

--command-config must be given: tokens are for clients that have authenticated. An HMAC is printed, and taken
with --hmac, in base64; it is the token's secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.tokens import (
    Token,
    create_token,
    describe_tokens,
    expire_token,
    hmac_bytes,
    renew_token,
)
from moldau.tools.kafka.lines.options import Given, Long, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.refusals import told

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

ACTIONS = ("create", "renew", "expire", "describe")
_ROW = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEADINGS = (
    "TOKENID",
    "HMAC",
    "OWNER",
    "REQUESTER",
    "RENEWERS",
    "ISSUEDATE",
    "EXPIRYDATE",
    "MAXDATE",
)

PARSER = Parser(
    "kafka-delegation-tokens",
    "This tool helps to create, renew, expire, or describe delegation tokens.",
    (
        Option("bootstrap-server", "String", "The brokers.", required=True),
        Option("command-config", "String", "A file of client settings (TLS, SASL).", required=True),
        flag("create", "Create a delegation token; --renewer-principal names who may renew it."),
        flag("renew", "Let a delegation token expire later, by --renew-time-period."),
        flag("expire", "Let a delegation token expire after --expiry-time-period."),
        flag("describe", "Describe the tokens of --owner-principal; without it, all that you may see."),
        Option("owner-principal", "String", "User:NAME; may be repeated.", may_lack_value=True),
        Option("renewer-principal", "String", "User:NAME; may be repeated.", may_lack_value=True),
        Option(
            "max-life-time-period", "Long", "Milliseconds; -1: the broker's own.", Long, may_lack_value=True
        ),
        Option("renew-time-period", "Long", "Milliseconds; -1: the broker's own.", Long, may_lack_value=True),
        Option("expiry-time-period", "Long", "Milliseconds; -1: at once.", Long, may_lack_value=True),
        Option("hmac", "String", "The token's HMAC, in base64.", may_lack_value=True),
    ),
)
_NEEDED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
}
_EXCLUDED = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    chosen = [name for name in ACTIONS if given.flag(name)]
    if len(chosen) != 1:
        raise CommandLineError(
            "Command must include exactly one action: --create, --renew, --expire or --describe",
            f"Type: {PARSER.tool} --describe --bootstrap-server HOST:PORT --command-config FILE",
        )
    (action,) = chosen
    PARSER.require_all(given)
    PARSER.require(given, *_NEEDED.get(action, ()))
    PARSER.exclude(given, action, *_EXCLUDED[action])
    run = _RUN[action]
    try:
        with reaching.cluster(given) as cluster:
            run(cluster, given)
    except KafkaProblem as problem:
        raise ToolError(told(problem)) from None
    return 0


def _create(cluster: Cluster, given: Given) -> None:
    renewers, lifetime_ms = _principals(given, "renewer-principal"), given.number("max-life-time-period") or 0
    print(
        f"Calling create token operation with renewers :[{', '.join(renewers)}] , "
        f"max-life-time-period :{lifetime_ms}"
    )
    owners = _principals(given, "owner-principal")
    token = create_token(cluster, renewers, lifetime_ms, owners[0] if owners else None)
    print(f"Created delegation token with tokenId : {token.token_id}")
    _print([token])


def _renew(cluster: Cluster, given: Given) -> None:
    hmac, period_ms = given.text("hmac") or "", given.number("renew-time-period") or 0
    secret = _secret(hmac)
    print(f"Calling renew token operation with hmac :{hmac} , renew-time-period :{period_ms}")
    print(f"Completed renew operation. New expiry date : {_minute(renew_token(cluster, secret, period_ms))}")


def _expire(cluster: Cluster, given: Given) -> None:
    hmac, period_ms = given.text("hmac") or "", given.number("expiry-time-period") or 0
    secret = _secret(hmac)
    print(f"Calling expire token operation with hmac :{hmac} , expire-time-period :{period_ms}")
    print(
        f"Completed expire operation. New expiry date : {_minute(expire_token(cluster, secret, period_ms))}"
    )


def _describe(cluster: Cluster, given: Given) -> None:
    owners = _principals(given, "owner-principal")
    print(
        f"Calling describe token operation for owners: [{', '.join(owners)}]"
        if owners
        else "Calling describe token operation for current user."
    )
    tokens = describe_tokens(cluster, owners or None)
    print(f"Total number of tokens : {len(tokens)}", end="")
    _print(tokens)


_RUN: dict[str, Callable[[Cluster, Given], None]] = {
    "create": _create,
    "renew": _renew,
    "expire": _expire,
    "describe": _describe,
}


def _principals(given: Given, name: str) -> list[str]:
    found = [text.strip() for text in given.texts(name) if text]
    for text in found:
        kind, colon, user = text.partition(":")
        if not (kind and colon and user):
            raise ToolError(f"expected a string in format principalType:principalName but got {text}")
    return found


def _secret(hmac: str) -> bytes:
    try:
        return hmac_bytes(hmac)
    except ValueError:
        raise ToolError("The HMAC is not base64, as --create and --describe print it.") from None


def _print(tokens: Sequence[Token]) -> None:
    print(_ROW.format(*_HEADINGS))
    for token in tokens:
        print(
            _ROW.format(
                token.token_id,
                token.hmac_text,
                token.owner,
                token.requester,
                f"[{', '.join(token.renewers)}]",
                _minute(token.issued_ms),
                _minute(token.expires_ms),
                _minute(token.max_ms),
            )
        )


def _minute(timestamp_ms: int) -> str:
    """A moment in this machine's time zone, as Kafka's tool prints it."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    return moment.astimezone().strftime("%Y-%m-%dT%H:%M")
