"""Which SASL mechanisms a listener offers, made from its settings; and the limits of logins.

    listener.name.<listener>.<mechanism>.sasl.jaas.config              as Kafka has it
    listener.name.<listener>.<mechanism>.connections.max.reauth.ms
    listener.name.<listener>.sasl.enabled.mechanisms
    sasl.jaas.config                          of the mechanism whose login module it names (Kafka ignores it)

A mechanism is made once, and anew when a setting changes that it is made of (`sasl.jaas.config` is dynamic):
logins that begin afterwards see it, clients that are logged in stay so until they re-authenticate, as in
Kafka.

`MAKERS` is the table of mechanisms: each takes what it needs of `Parts`, and returns the function that begins
a login. SettingError says what is missing.
"""

import logging
import random
from collections.abc import Callable, Mapping

from moldau.broker.metadata.image import Image
from moldau.broker.security.login.outside import Outside
from moldau.broker.security.login.parts import Parts
from moldau.broker.security.login.plain import PlainUsers
from moldau.broker.security.login.steps import Begin, Offer
from moldau.common.core.clock import Clock
from moldau.common.credentials.jaas import MODULES, JaasEntry, JaasError, parse_jaas
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.prefixed import listener_settings, own_texts
from moldau.common.settings.rows import SettingError

log = logging.getLogger("moldau.security")


class Logins:
    """The logins of a broker's listeners."""

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        image: Callable[[], Image],
        clock: Clock,
        source: random.Random,
        outside: Outside | None = None,
    ) -> None:
        self._settings = settings
        self._outside = outside
        self._image = image
        self._clock = clock
        self._random = source
        self._offered: dict[str, tuple[BrokerSettings, Mapping[str, Offer]]] = {}
        self._made: dict[tuple[str, str], tuple[_MadeOf, Begin]] = {}  # by listener and mechanism

    def offered(self, listener: str) -> Mapping[str, Offer]:
        """The mechanisms of a listener, by name. SettingError when one cannot be made at the start; after a
        change of settings that cannot be carried out, those from before stay."""
        settings = self._settings()
        known = self._offered.get(listener)
        if known is not None and known[0] is settings:
            return known[1]
        try:
            own = listener_settings(settings, listener)
            texts = own_texts(settings, listener)
            names = own.sasl_enabled_mechanisms
            offers: Mapping[str, Offer] = {name: self._offer(listener, name, own, texts) for name in names}
        except SettingError as error:
            if known is None:
                raise
            log.warning("the listener %s offers the SASL mechanisms from before: %s", listener, error)
            offers = known[1]
        self._offered[listener] = (settings, offers)
        return offers

    def _offer(self, listener: str, name: str, settings: BrokerSettings, texts: Mapping[str, str]) -> Offer:
        maker = MAKERS.get(name)
        if maker is None:
            raise SettingError(
                "sasl.enabled.mechanisms",
                f"sasl.enabled.mechanisms of the listener {listener} names {name}, which is not served; "
                f"there are {', '.join(MAKERS)}",
            )
        jaas = _jaas(listener, name, settings, texts)
        made_of = (jaas, [settings.get(setting) for setting in _MADE_OF])
        earlier_made_of, begin = self._made.get((listener, name), (None, None))
        if begin is None or made_of != earlier_made_of:
            begin = maker(
                Parts(listener, name, settings, jaas, self._image, self._clock, self._random, self._outside)
            )
            self._made[listener, name] = (made_of, begin)
        own_ms = texts.get(f"{name.lower()}.connections.max.reauth.ms")
        return Offer(begin, settings.connections_max_reauth_ms if own_ms is None else int(own_ms))

    def receive_bytes_max(self, listener: str) -> int:
        """The longest frame before a login."""
        return listener_settings(self._settings(), listener).sasl_server_max_receive_size

    def delay_ms(self) -> int:
        """How long after a failed login its answer is sent."""
        return self._settings().connection_failed_authentication_delay_ms


_MadeOf = tuple[JaasEntry | None, list[object]]
_MADE_OF = tuple(
    name
    for name in BrokerSettings.ROWS
    if name.startswith("sasl.") and name not in ("sasl.jaas.config", "sasl.enabled.mechanisms")
)
"""The settings that mechanisms are made of, besides their JAAS entries."""


def _jaas(
    listener: str, mechanism: str, settings: BrokerSettings, texts: Mapping[str, str]
) -> JaasEntry | None:
    """The JAAS entry of a mechanism. SettingError when it cannot be read, or is another mechanism's."""
    name = f"{mechanism.lower()}.sasl.jaas.config"
    module = MODULES.get(mechanism)
    own = _parsed(texts.get(name), f"listener.name.{listener.lower()}.{name}")
    if own is not None and own.module_name != module:
        raise SettingError(
            name,
            f"listener.name.{listener.lower()}.{name} names {_shown(own.module_name)}, and {mechanism} "
            f"needs {module}",
        )
    shared = _parsed(settings.sasl_jaas_config, "sasl.jaas.config")
    return own or (shared if shared is not None and shared.module_name == module else None)


def _shown(module_name: str) -> str:
    """A login module's name. What is none may be a password in the wrong place."""
    return module_name if module_name in MODULES.values() else "a login module that there is not"


def _parsed(text: str | None, setting: str) -> JaasEntry | None:
    if not text or not text.strip():
        return None
    try:
        return parse_jaas(text)
    except JaasError as error:
        raise SettingError(setting, f"{setting} cannot be read: {error}") from None


_USER_PREFIX = "user_"


def _plain(parts: Parts) -> Begin:
    jaas = parts.jaas
    if jaas is None:
        raise SettingError(
            "sasl.jaas.config",
            f"the listener {parts.listener} offers PLAIN, and has no users for it: set "
            f"listener.name.{parts.listener.lower()}.plain.sasl.jaas.config="
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";',
        )
    options = jaas.options.items()
    users = {name[len(_USER_PREFIX) :]: value for name, value in options if name.startswith(_USER_PREFIX)}
    return PlainUsers(users, parts.source).begin


def _scram(parts: Parts) -> Begin:
    from moldau.broker.security.login.scram import Scram
    from moldau.broker.security.login.scram_store import scram_store
    from moldau.common.credentials.scram import BY_NAME

    mechanism = BY_NAME[parts.mechanism]
    tokens, outside = None, parts.outside
    if outside is not None and outside.signer.enabled:
        from moldau.broker.security.login.token_credentials import TokenCredentials

        tokens = TokenCredentials(mechanism, outside.signer, parts.image, parts.clock, outside.run).find
    store = scram_store(mechanism, parts.image, parts.source, tokens)
    return lambda: Scram(mechanism, store, parts.source)


def _oauthbearer(parts: Parts) -> Begin:
    from moldau.broker.security.login.setup_oauthbearer import oauthbearer

    return oauthbearer(parts)


def _gssapi(parts: Parts) -> Begin:
    from moldau.broker.security.login.setup_gssapi import gssapi

    return gssapi(parts)


MAKERS: Mapping[str, Callable[[Parts], Begin]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
    "GSSAPI": _gssapi,
}
