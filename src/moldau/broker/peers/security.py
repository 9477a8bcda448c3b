"""How a broker connects to the others, by its settings of this moment.

The protocol is that of the listener between brokers; key stores, mechanism and login are the listener's own
settings, as they are for its clients:

    listener.name.internal.ssl.truststore.location   by which the others' certificates are checked
    listener.name.internal.ssl.keystore.location     shown where they ask for a certificate
    sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
    listener.name.internal.scram-sha-512.sasl.jaas.config=... username="broker" password="...";

Not here: the connections (channel.py), the settings of one listener (common/settings/prefixed.py).
"""

from collections.abc import Callable

from moldau.common.credentials.client.contexts import context_of
from moldau.common.credentials.client.exchange import exchange_of
from moldau.common.credentials.client.options import ClientSecurity, broker_security
from moldau.common.credentials.errors import CredentialsError
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.listeners import inter_broker_listener, listeners, protocol_map
from moldau.common.settings.prefixed import listener_settings, own_texts
from moldau.common.settings.rows import SettingError


class PeerSecurity:
    """The security of connections to other brokers; `settings` gives those in effect."""

    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._known: dict[str, tuple[BrokerSettings, ClientSecurity]] = {}

    def secure(self, listener: str) -> Callable[[], ClientSecurity] | None:
        """How to connect to a listener of this name, asked at each attempt; None: in plain text."""
        if protocol_map(self._settings()).get(listener, "") == "PLAINTEXT":
            return None
        return lambda: self.of(listener)

    def of(self, listener: str) -> ClientSecurity:
        """How to connect to a listener of this name now. CredentialsError."""
        settings = self._settings()
        known = self._known.get(listener)
        if known is None or known[0] is not settings:
            known = self._known[listener] = (settings, _security(settings, listener))
        return known[1]


def _security(settings: BrokerSettings, listener: str) -> ClientSecurity:
    protocol = protocol_map(settings).get(listener)
    if protocol is None:
        raise CredentialsError(
            f"another broker's listener {listener} is not in listener.security.protocol.map of this one"
        )
    own = listener_settings(settings, listener)
    texts = own_texts(settings, listener)
    mechanism = own.sasl_mechanism_inter_broker_protocol

    def get(name: str) -> object:
        of_mechanism = texts.get(f"{mechanism.lower()}.{name}")
        if of_mechanism is not None:
            return of_mechanism
        return own.get(name) if name in BrokerSettings.ROWS else texts.get(name)

    return broker_security(protocol, mechanism, get)


def check(settings: BrokerSettings) -> None:
    """SettingError if these settings cannot be used between brokers: with a sentence, before there are any
    connections. Reads key stores.
    """
    name = inter_broker_listener(settings) or listeners(settings)[0].name
    try:
        security = _security(settings, name)
        context_of(security)
        if security.sasl is not None:
            offered = listener_settings(settings, name).sasl_enabled_mechanisms
            if security.sasl.mechanism not in offered:
                raise CredentialsError(
                    f"sasl.mechanism.inter.broker.protocol is {security.sasl.mechanism}, which "
                    f"sasl.enabled.mechanisms ({', '.join(offered)}) does not offer"
                )
            exchange_of(security.sasl, "localhost", lambda: "0")
    except CredentialsError as error:
        raise SettingError(
            "inter.broker.listener.name",
            f"brokers cannot connect to each other at the listener {name}: {error}",
        ) from None
