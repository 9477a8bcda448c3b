"""Settings that hold for one listener: `listener.name.<listener>.<setting>`.

    ssl.keystore.location=/etc/broker.p12                              every listener
    listener.name.outside.ssl.keystore.location=/etc/outside.p12       the listener OUTSIDE

The listener's name is in lower case, as Kafka wants it. A setting of a SASL mechanism has that in front:
listener.name.outside.scram-sha-256.sasl.jaas.config.
"""

from collections.abc import Mapping

from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.rows import Scope, Setting, SettingError

PREFIX = "listener.name."

RENEWED = frozenset(
    f"ssl.{store}.{part}"
    for store, parts in {
        "keystore": ("type", "location", "password", "key", "certificate.chain"),
        "truststore": ("type", "location", "password", "certificates"),
        "key": ("password",),
    }.items()
    for part in parts
)
"""Key and trust stores: they may be replaced while the broker runs, for one listener at a time."""

_OF_MECHANISMS = ("sasl.", "connections.max.reauth.ms")


def is_prefixed(name: str) -> bool:
    """Whether this is the name of a setting for one listener."""
    return name.startswith(PREFIX)


def row_of(name: str) -> Setting | None:
    """The row of a setting, with or without a listener's prefix; None if there is none."""
    base = _base(name)
    row = BrokerSettings.ROWS.get(base)
    if row is None and is_prefixed(name):
        of_mechanism = base.partition(".")[2]
        if of_mechanism.startswith(_OF_MECHANISMS):
            row = BrokerSettings.ROWS.get(of_mechanism)
    return row


def changes_live(name: str) -> bool:
    """Whether a setting may change while the broker runs. Stores may, with a listener's prefix only."""
    row = row_of(name)
    if row is None:
        return False
    return row.scope is not Scope.READ_ONLY or (is_prefixed(name) and _base(name) in RENEWED)


def check_prefixed(texts: Mapping[str, str]) -> None:
    """SettingError for the first value that its setting cannot take."""
    for name, text in texts.items():
        row = row_of(name)
        if row is not None and not (row.nullable and not text.strip()):
            try:
                row.parse(text)
            except SettingError as error:
                raise SettingError(name, error.sentence.replace(row.name, name)) from None


def listener_settings(settings: BrokerSettings, listener: str) -> BrokerSettings:
    """The settings that hold for this listener; the same object if it has none of its own. Values were
    checked when they were set; one that another version has set is left out."""
    if not settings.prefixed:
        return settings
    known: BrokerSettings | None = settings.memo.get(("listener", listener))
    if known is None:
        known = settings
        values = {}
        for name, text in own_texts(settings, listener).items():
            row = BrokerSettings.ROWS.get(name)
            if row is not None:
                try:
                    values[row.attribute] = None if row.nullable and not text.strip() else row.parse(text)
                except SettingError:
                    continue
        if values:
            known = settings.replace(**values)
        settings.remember(("listener", listener), known)
    return known


def own_texts(settings: BrokerSettings, listener: str) -> dict[str, str]:
    """The listener's own settings as texts, by name without the prefix."""
    prefix = f"{PREFIX}{listener.lower()}."
    return {
        name.removeprefix(prefix): text for name, text in settings.prefixed.items() if name.startswith(prefix)
    }


def _base(name: str) -> str:
    """The name without the listener's prefix."""
    return name[len(PREFIX) :].partition(".")[2] if is_prefixed(name) else name
