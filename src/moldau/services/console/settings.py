"""What the console is told.

bootstrap.servers, moldau.console.*, listeners, ...    rows of the table below, and of every HTTP service
client.NAME                                            NAME, for its clients of Kafka
schema.registry.NAME                                   the client of the schema registry
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.common.settings.checks import at_least, between, one_of_any_case
from moldau.common.settings.rows import SettingError
from moldau.common.settings.table import boolean, integer, listing, long, table, text
from moldau.services.console.messages.masking import Mask, parse_mask
from moldau.services.http.settings import HttpSettingsPart, listeners_of, settings_from

DEFAULT_PORT = 8080
FAMILIES = ("client.", "schema.registry.")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@table
class ConsoleSettings(HttpSettingsPart):
    """The settings of the console itself, and of its listeners."""

    bootstrap_servers: str = text("localhost:9092", "The brokers: HOST:PORT, several with commas.")
    moldau_console_allow_changes: bool = boolean(
        False,
        "Whether a console without a login may change things. It is read-only otherwise; with a login, "
        "rights "
        "and moldau.console.editors decide.",
    )
    moldau_console_editors: tuple[str, ...] = listing(
        (), "Users who may change things where no file of rights says who may; `*`: all who log in."
    )
    moldau_console_login: str = text(
        "auto",
        "How people log in: scram (the brokers' own users), users (moldau.http.users.file), none, or auto: "
        "none on loopback, else users if there is such a file, else scram.",
        one_of_any_case("auto", "none", "scram", "users"),
    )
    moldau_console_login_bootstrap_servers: str = text(
        "", "Where logins by SCRAM are tried; unset: bootstrap.servers. Its listener must ask for SASL."
    )
    moldau_console_login_mechanism: str = text(
        "SCRAM-SHA-512", "SCRAM-SHA-256 or SCRAM-SHA-512.", one_of_any_case("SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    moldau_console_session_ms: int = long(12 * 3_600_000, "How long a login lasts, in ms.", at_least(60_000))
    moldau_console_refresh_ms: int = integer(
        5_000, "How often the cluster is looked at while somebody looks, in ms.", at_least(500)
    )
    moldau_console_health_urls: tuple[str, ...] = listing(
        (), "Where brokers tell their health, such as http://broker:9640; unset: the brokers' hosts at 9640."
    )
    moldau_console_connect_urls: tuple[str, ...] = listing(
        (), "Kafka Connect's workers: http://HOST:8083, one for each cluster of workers."
    )
    moldau_console_mask: tuple[str, ...] = listing(
        (),
        "What is never shown: TOPIC:value.FIELD, TOPIC:key or TOPIC:headers.NAME; TOPIC may end in *.",
    )
    moldau_console_audit_file: str | None = text(
        None, "A file that gets a line of JSON for each change that was made or refused."
    )
    moldau_console_data_dir: str | None = text(
        None, "Where the offsets of groups before a reset are kept for a day; unset: in memory only."
    )
    moldau_console_readers_max: int = integer(
        32, "The most readings of records, live tails too, at a time.", between(1, 1_000)
    )


class ConsoleConfiguration:
    """The settings of the table, and those of the clients."""

    def __init__(self, settings: ConsoleSettings, texts: Mapping[str, str]) -> None:
        """SettingError."""
        self.settings = settings
        self._texts = dict(texts)
        self.masks = _masks(settings.moldau_console_mask)
        self.login = _login(settings)

    def client(self) -> dict[str, str]:
        """The settings of a Kafka client, as a file spells them, without the prefix."""
        found = {
            name.removeprefix("client."): value
            for name, value in self._texts.items()
            if name.startswith("client.")
        }
        found["bootstrap.servers"] = self.settings.bootstrap_servers
        return found

    def registry(self) -> dict[str, str]:
        """The settings of the registry's client; empty if no registry is named."""
        found = {name: value for name, value in self._texts.items() if name.startswith("schema.registry.")}
        return found if found.get("schema.registry.url") else {}


def _masks(texts: tuple[str, ...]) -> tuple[Mask, ...]:
    try:
        return tuple(parse_mask(each) for each in texts)
    except ValueError as problem:
        raise SettingError("moldau.console.mask", f"moldau.console.mask: {problem}") from None


def _login(settings: ConsoleSettings) -> str:
    """none, users or scram. SettingError: nobody would have to log in where others can reach it."""
    wanted = settings.moldau_console_login.lower()
    has_users = bool(settings.moldau_http_users_file)
    outside = [each for each in listeners_of(settings.listeners, DEFAULT_PORT) if each.host not in _LOOPBACK]
    if wanted == "auto":
        if has_users:
            return "users"
        return "scram" if outside else "none"
    if wanted == "users" and not has_users:
        name = "moldau.console.login"
        raise SettingError(name, f"{name}=users needs moldau.http.users.file")
    if wanted == "none" and outside:
        name = "moldau.console.login"
        raise SettingError(
            name,
            f"{name}=none would let everybody in at {outside[0].host}: listen on 127.0.0.1, or ask for a "
            "login (scram or users)",
        )
    return wanted


def console_configuration(texts: Mapping[str, str]) -> tuple[ConsoleConfiguration, list[str]]:
    """The console's settings from texts by name, and a warning for each that is not known. SettingError."""
    settings, warnings = settings_from(ConsoleSettings, texts, families=FAMILIES)
    return ConsoleConfiguration(settings, texts), warnings
