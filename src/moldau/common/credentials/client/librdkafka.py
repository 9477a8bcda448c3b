"""A client's security settings under Java's names, as librdkafka knows them.

    ssl.truststore.*                 -> ssl.ca.pem
    ssl.keystore.*                   -> ssl.certificate.pem, ssl.key.pem
    ssl.endpoint.identification...=  -> none
    sasl.jaas.config                 -> sasl.username, sasl.password; or sasl.kerberos.*, sasl.oauthbearer.*

librdkafka reads no JKS, and a PKCS12 file for a client's own key only: so stores of any format are read here
and handed over as PEM text in memory; no key is written to a file. Settings that librdkafka has under the
same name are left as they are.
"""

from collections.abc import Mapping

from moldau.common.credentials.client.options import client_security, jaas_entry
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jaas import JaasEntry
from moldau.common.credentials.tls.options import tls_options
from moldau.common.credentials.tls.stores import key_material, trusted_certificates

_JAVA_STORES = ("ssl.truststore.", "ssl.keystore.")
_WITHOUT_EFFECT = frozenset(
    {
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
        "security.providers",
        "sasl.login.class",
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
    }
)
_OAUTH_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_OAUTH_SETTINGS = {
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope": "sasl.oauthbearer.scope",
}


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """The same settings under librdkafka's names; those that have nothing to do with security as they are.
    CredentialsError: stores that cannot be read, a login that librdkafka cannot make.
    """
    protocol = settings.get("security.protocol", "").upper()
    found = {
        name: value
        for name, value in settings.items()
        if not name.startswith(_JAVA_STORES) and name not in _WITHOUT_EFFECT and name != "sasl.jaas.config"
    }
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    if "ssl.cipher.suites" in found:
        from moldau.common.credentials.tls.ciphers import openssl_names

        suites = [each.strip() for each in found.pop("ssl.cipher.suites").split(",")]
        if names := openssl_names(suites) if any("_WITH_" in each for each in suites) else suites:
            found["ssl.cipher.suites"] = ":".join(names)
    if (protocol.endswith("SSL") or not protocol) and any(name.startswith(_JAVA_STORES) for name in settings):
        found |= _stores(settings)
    if protocol.startswith("SASL") or not protocol:
        if "sasl.mechanism" in found:
            found["sasl.mechanisms"] = found.pop("sasl.mechanism")
        if "sasl.jaas.config" in settings:
            mechanism = found.get("sasl.mechanisms")
            if mechanism is None:
                security = client_security({"security.protocol": "SASL_SSL", **settings})
                assert security.sasl is not None
                mechanism = found["sasl.mechanisms"] = security.sasl.mechanism
            found |= _login(mechanism.upper(), jaas_entry(settings["sasl.jaas.config"]), found)
    return found


def _stores(settings: Mapping[str, str]) -> dict[str, str]:
    """Key store and trust store as PEM text."""
    options = tls_options(settings.get)
    found: dict[str, str] = {}
    trusted = trusted_certificates(options)
    if trusted is not None:
        found["ssl.ca.pem"] = "".join(each.text for each in trusted)
    own = key_material(options)
    if own is not None:
        found["ssl.certificate.pem"] = "".join(each.text for each in own.chain)
        found["ssl.key.pem"] = own.key.text
        if own.password is not None:
            found["ssl.key.password"] = own.password
    return found


def _login(mechanism: str, entry: JaasEntry, found: dict[str, str]) -> dict[str, str]:
    options = entry.options
    if mechanism == "GSSAPI":
        return _kerberos(options)
    if mechanism == "OAUTHBEARER":
        return _oauth(options, found)
    if options.get("tokenauth", "").lower() == "true":
        raise CredentialsError(
            "sasl.jaas.config logs in by delegation token (tokenauth=true), which librdkafka cannot: use a "
            "user's name and password here"
        )
    if not options.get("username") or "password" not in options:
        raise CredentialsError('sasl.jaas.config lacks username="..." or password="..."')
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _kerberos(options: Mapping[str, str]) -> dict[str, str]:
    names = {
        "principal": "sasl.kerberos.principal",
        "keyTab": "sasl.kerberos.keytab",
        "serviceName": "sasl.kerberos.service.name",
    }
    return {theirs: options[ours] for ours, theirs in names.items() if ours in options}


def _oauth(options: Mapping[str, str], found: dict[str, str]) -> dict[str, str]:
    made = {theirs: options[ours] for ours, theirs in _OAUTH_OPTIONS.items() if ours in options}
    for java, theirs in _OAUTH_SETTINGS.items():
        if java in found:
            made.setdefault(theirs, found.pop(java))
    if "sasl.oauthbearer.token.endpoint.url" in made:
        return {"sasl.oauthbearer.method": "oidc", **made}
    subject = options.get("unsecuredLoginStringClaim_sub")
    if subject is None:
        raise CredentialsError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url with clientId and clientSecret in "
            "sasl.jaas.config (or unsecuredLoginStringClaim_sub, for tests)"
        )
    if any(each in subject for each in ' ="'):
        raise CredentialsError("unsecuredLoginStringClaim_sub must not have a blank, = or quote in it")
    return {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal={subject}",
    }
