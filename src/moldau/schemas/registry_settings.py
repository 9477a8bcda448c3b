"""Settings of a registry's client, under the names of Confluent's Java clients, for confluent-kafka's client.

Names may stand with `schema.registry.` in front or without, as in Java; those that are no business of the
registry's client are skipped, because programs hand in all the settings of a producer. Both Java's stores
(type PEM) and librdkafka's files are understood for TLS.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

PREFIX = "schema.registry."
DEFAULTS: Mapping[str, Any] = {
    "timeout": 30.0,
    "cache.capacity": 1_000,
    "cache.latest.ttl.sec": 60.0,
    "max.retries": 3,
    "retries.wait.ms": 200,
    "retries.max.wait.ms": 5_000,
}
"""The client of confluent-kafka would wait without end, and never look for a newer version again."""


class RegistrySettingError(ValueError):
    """A setting is missing or wrong; the message names it."""


def _number(text: str) -> float:
    return float(text)


def _seconds_of_ms(text: str) -> float:
    return float(text) / 1000


_PLAIN: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "url": ("url", str),
    "http.read.timeout.ms": ("timeout", _seconds_of_ms),
    "request.timeout.ms": ("timeout", _seconds_of_ms),
    "timeout": ("timeout", _number),
    "cache.capacity": ("cache.capacity", int),
    "latest.cache.ttl.sec": ("cache.latest.ttl.sec", _number),
    "cache.latest.ttl.sec": ("cache.latest.ttl.sec", _number),
    "max.retries": ("max.retries", int),
    "retries.wait.ms": ("retries.wait.ms", int),
    "retries.max.wait.ms": ("retries.max.wait.ms", int),
    "ssl.ca.location": ("ssl.ca.location", str),
    "ssl.truststore.location": ("ssl.ca.location", str),
    "ssl.certificate.location": ("ssl.certificate.location", str),
    "ssl.keystore.location": ("ssl.certificate.location", str),
    "ssl.key.location": ("ssl.key.location", str),
    "ssl.key.password": ("ssl.key.password", str),
    "bearer.auth.credentials.source": ("bearer.auth.credentials.source", str),
    "bearer.auth.token": ("bearer.auth.token", str),
    "bearer.auth.logical.cluster": ("bearer.auth.logical.cluster", str),
    "bearer.auth.identity.pool.id": ("bearer.auth.identity.pool.id", str),
    "bearer.auth.issuer.endpoint.url": ("bearer.auth.issuer.endpoint.url", str),
    "bearer.auth.client.id": ("bearer.auth.client.id", str),
    "bearer.auth.client.secret": ("bearer.auth.client.secret", str),
    "bearer.auth.scope": ("bearer.auth.scope", str),
    "proxy": ("proxy", str),
}
"""The client's name of each setting, and how its text is read."""

_BASIC = ("basic.auth.credentials.source", "basic.auth.user.info")
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")


def client_settings(conf: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for confluent-kafka's SchemaRegistryClient. RegistrySettingError."""
    given: dict[str, str] = {}
    for name in sorted(conf, key=lambda name: name.startswith(PREFIX)):  # A name with the prefix wins.
        given[name.removeprefix(PREFIX)] = str(conf[name])
    if not given.get("url", "").strip():
        raise RegistrySettingError("schema.registry.url is missing: the address of the registry")
    _check_stores(given)
    settings = dict(DEFAULTS)
    for name, (client_name, read) in _PLAIN.items():
        if not (text := given.get(name, "").strip()):
            continue
        try:
            settings[client_name] = read(text)
        except ValueError:
            raise RegistrySettingError(f"{PREFIX}{name}={text} is no number") from None
    _check_addresses(settings["url"])
    if "ssl.certificate.location" in settings:
        settings.setdefault("ssl.key.password", "")  # else OpenSSL asks for it at the terminal
    _basic(given, settings)
    _bearer(settings)
    return settings


def tls_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """What `client_settings` say of TLS. RegistrySettingError: a file is missing or not what it should be."""
    authority, certificate = settings.get("ssl.ca.location"), settings.get("ssl.certificate.location")
    key, password = settings.get("ssl.key.location"), settings.get("ssl.key.password", "")
    for name, path in (("ca", authority), ("certificate", certificate), ("key", key)):
        if path and not os.access(path, os.R_OK):
            raise RegistrySettingError(f"ssl.{name}.location={path} is no file that can be read")
    if (key or password) and not certificate:
        raise RegistrySettingError("ssl.key.* needs ssl.certificate.location, the certificate of that key")
    try:
        is_folder = authority is not None and os.path.isdir(authority)
        context = ssl.create_default_context(
            cafile=None if is_folder else authority, capath=authority if is_folder else None
        )
    except OSError:
        raise RegistrySettingError(f"ssl.ca.location={authority} holds no certificates in PEM") from None
    if certificate:
        try:
            context.load_cert_chain(certificate, key, password)
        except (OSError, ValueError):
            raise RegistrySettingError(
                f"the key in {key or certificate} cannot be used: it is no PEM, or not that of the "
                f"certificate, or ssl.key.password is {'wrong' if password else 'missing'}"
            ) from None
    return context


def _check_addresses(urls: str) -> None:
    for url in map(str.strip, urls.split(",")):
        shown = url.rpartition("@")[2]  # not the login
        if not url.startswith(("http://", "https://")):
            raise RegistrySettingError(
                f"schema.registry.url has {shown!r}: an address begins with http:// or https://"
            )
        try:
            parts = urlsplit(url)
            is_whole = bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_whole = False
        if not is_whole:
            raise RegistrySettingError(
                f"schema.registry.url has {shown!r}: write http://HOST:PORT or https://HOST:PORT"
            )


def _check_stores(given: Mapping[str, str]) -> None:
    for name in _STORE_TYPES:
        location = name.replace("type", "location")
        if given.get(location) and given.get(name, "").upper() != "PEM":
            raise RegistrySettingError(
                f"{PREFIX}{location} is read as PEM only: convert the store, and set {PREFIX}{name}=PEM"
            )


def _basic(given: Mapping[str, str], settings: dict[str, Any]) -> None:
    source = given.get(_BASIC[0], "").upper()
    user_info = given.get(_BASIC[1], "")
    if source in ("USER_INFO", "") and user_info:
        if ":" not in user_info:
            raise RegistrySettingError("basic.auth.user.info is written as user:password")
        settings["basic.auth.user.info"] = user_info
    elif source == "USER_INFO":
        raise RegistrySettingError("basic.auth.credentials.source=USER_INFO needs basic.auth.user.info")
    elif source not in ("", "URL"):
        raise RegistrySettingError(
            f"basic.auth.credentials.source={source} is not known here: USER_INFO or URL"
        )


def _bearer(settings: dict[str, Any]) -> None:
    """A fixed token alone is enough in Java; confluent-kafka asks for the name of a cloud's cluster too."""
    source = settings.get("bearer.auth.credentials.source", "").upper()
    token = settings.get("bearer.auth.token")
    if token and not (token.isascii() and token.isprintable()):
        raise RegistrySettingError("bearer.auth.token has a character that no header can carry")
    if source in ("", "STATIC_TOKEN") and token:
        fields = {
            "bearer.auth.token": token,
            "bearer.auth.logical.cluster": settings.pop("bearer.auth.logical.cluster", ""),
        }
        if pool := settings.pop("bearer.auth.identity.pool.id", None):
            fields["bearer.auth.identity.pool.id"] = pool
        del settings["bearer.auth.token"]
        settings["bearer.auth.credentials.source"] = "CUSTOM"
        settings["bearer.auth.custom.provider.function"] = lambda _: fields
        settings["bearer.auth.custom.provider.config"] = {}
    elif source == "OAUTHBEARER":
        settings["bearer.auth.credentials.source"] = source
        settings.setdefault("bearer.auth.logical.cluster", "")
    elif source:
        raise RegistrySettingError(
            f"bearer.auth.credentials.source={source} is not known here: OAUTHBEARER, or STATIC_TOKEN "
            "with bearer.auth.token"
        )
