"""TLS of one listener: its key store and trust store, loaded and renewed; who a client's certificate is.

    settings, files -> [worker] load -> Loaded(context, certificate, files' times)  -> new connections

Stores are read in a worker, since a PKCS12 store takes half a second to open. A new store, from dynamic
settings or because a file has changed, is for connections that begin afterwards; the others keep theirs. One
that cannot be used is reported (log, /health), and the old one stays. As in Kafka, a renewed certificate must
have the same distinguished name and at least the same alternative names, unless ssl.allow.dn.changes or
ssl.allow.san.changes are set.

A SASL_SSL listener asks for certificates only where its own settings say so (KIP-684): ssl.client.auth of all
listeners is meant for SSL, where the certificate names the user. The HTTP port likewise (its name is HTTP).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from moldau.common.core.files import Files
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.principals import MappingError, PrincipalMapping
from moldau.common.credentials.tls.certificate import Certificate, parse
from moldau.common.credentials.tls.contexts import server_context
from moldau.common.credentials.tls.options import TlsOptions, tls_options
from moldau.common.credentials.tls.stores import key_material, read_file
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.prefixed import listener_settings, own_texts
from moldau.common.settings.rows import SettingError

log = logging.getLogger("moldau.security")

_PRINCIPALS_MAX = 1000

Offload = Callable[[Callable[[], Any]], asyncio.Future[Any]]
"""Runs blocking code in a worker."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a listener's settings gave."""

    options: TlsOptions
    context: ssl.SSLContext
    certificate: Certificate
    changed_ms: tuple[int, ...]
    """When the files were written, and their sizes."""


class ListenerTls:
    """The TLS of one listener."""

    def __init__(self, name: str, protocol: str, files: Files, offload: Offload) -> None:
        self.name = name
        self.problem: str | None = None
        """Why the newest stores are not used, if they are not."""
        self.renewed_count = 0
        self._protocol = protocol
        self._files = files
        self._offload = offload
        self._loaded: Loaded | None = None
        self._mapping = PrincipalMapping("DEFAULT")
        self._principals: dict[bytes, str] = {}
        self._renewing = False

    @property
    def context(self) -> ssl.SSLContext:
        """For a connection that begins now."""
        assert self._loaded is not None
        return self._loaded.context

    @property
    def certificate(self) -> Certificate:
        """The certificate that clients are shown."""
        assert self._loaded is not None
        return self._loaded.certificate

    async def load(self, settings: BrokerSettings) -> None:
        """Load the stores for the first time. SettingError."""
        own = listener_settings(settings, self.name)
        try:
            self._mapping = PrincipalMapping(own.ssl_principal_mapping_rules)
        except MappingError as error:
            raise SettingError("ssl.principal.mapping.rules", str(error)) from None
        options = self._options(settings)
        try:
            self._loaded = await self._offload(lambda: self._load(options))
        except CredentialsError as error:
            raise SettingError("ssl.keystore", f"the listener {self.name}: {error}") from None

    async def problem_with(self, settings: BrokerSettings) -> str | None:
        """Why these settings' stores cannot follow the present ones; None if they can."""
        old, options = self._loaded, self._options(settings)
        if old is None or options == old.options:
            return None
        try:
            new: Loaded = await self._offload(lambda: self._load(options))
            _check_names(old.certificate, new.certificate, listener_settings(settings, self.name))
        except CredentialsError as error:
            return f"the listener {self.name} cannot use these stores: {error}"
        return None

    async def renew(self, settings: BrokerSettings) -> None:
        """Load the stores again if the settings about them or their files have changed."""
        if self._renewing:
            return  # the next look sees it
        self._renewing = True
        try:
            await self._renew(settings)
        finally:
            self._renewing = False

    async def _renew(self, settings: BrokerSettings) -> None:
        old = self._loaded
        assert old is not None
        options = self._options(settings)
        try:
            if options == old.options and (
                not options.files or await self._offload(lambda: self._times(options)) == old.changed_ms
            ):
                self._report(None)
                return
            new: Loaded = await self._offload(lambda: self._load(options))
            _check_names(old.certificate, new.certificate, listener_settings(settings, self.name))
        except CredentialsError as error:
            self._report(f"the listener {self.name} keeps its old certificate: {error}")
            return
        self._loaded = new
        self._principals.clear()
        self.renewed_count += 1
        self._report(None)
        log.info(
            "the listener %s has renewed its TLS stores: %s, valid until %s",
            self.name,
            new.certificate.subject,
            day_of(new.certificate.valid_until_ms),
        )

    def _report(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            log.error("%s", problem)
        self.problem = problem

    def _options(self, settings: BrokerSettings) -> TlsOptions:
        options = tls_options(listener_settings(settings, self.name).get_or_none)
        if self._protocol != "SSL" and "ssl.client.auth" not in own_texts(settings, self.name):
            options = replace(options, client_auth="none")
        return options

    def _load(self, options: TlsOptions) -> Loaded:
        """In a worker. CredentialsError."""
        changed_ms = self._times(options)
        material = key_material(options, read_file)
        context = server_context(options, read_file, material)
        assert material is not None
        try:
            certificate = parse(material.chain[0].der)
        except ValueError as error:  # OpenSSL takes it, but a name in it is odd
            raise CredentialsError(f"the certificate cannot be read: {error}") from None
        return Loaded(options, context, certificate, changed_ms)

    def _times(self, options: TlsOptions) -> tuple[int, ...]:
        times = []
        for path in options.files:
            try:
                times += [self._files.modified_ms(path), self._files.file_size_bytes(path)]
            except OSError:
                times += [0, 0]  # the load says why
        return tuple(times)

    # Who a client is

    def principal_of(self, tls: ssl.SSLObject) -> str | None:
        """The principal of a client's certificate; None if it shows none. MappingError: no rule takes it."""
        shown = tls.getpeercert(binary_form=True)
        if shown is None:
            return None
        known = self._principals.get(shown)
        if known is None:
            try:
                subject = parse(shown).subject
            except ValueError as error:
                raise MappingError(f"its certificate cannot be read: {error}") from None
            known = f"User:{self._mapping.name_of(subject)}"
            if len(self._principals) >= _PRINCIPALS_MAX:
                self._principals.clear()
            self._principals[shown] = known
        return known


def _check_names(old: Certificate, new: Certificate, settings: BrokerSettings) -> None:
    """CredentialsError if a renewed certificate is somebody else's."""
    if old.subject != new.subject and not settings.ssl_allow_dn_changes:
        raise CredentialsError(
            f"the new one is of {new.subject}, not of {old.subject}; if that is meant, set "
            "ssl.allow.dn.changes=true"
        )
    missing = sorted(set(old.alternative_names) - set(new.alternative_names))
    if missing and not settings.ssl_allow_san_changes:
        raise CredentialsError(
            f"the new one lacks {', '.join(missing)}; set ssl.allow.san.changes=true if that is meant"
        )


def day_of(time_ms: int) -> str:
    """A time as a day of the calendar, in UTC."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()
