"""The file of logins (JAAS) that `-Djava.security.auth.login.config=FILE` in KAFKA_OPTS names.

    KafkaServer { ScramLoginModule ...; PlainLoginModule ...; };     every listener of a broker
    inside.KafkaServer { ... };                                      the listener INSIDE, before KafkaServer
    KafkaClient { ... };                                             commands
    Client { ... };                                                  a broker's connection to ZooKeeper

As in Kafka, `sasl.jaas.config` goes before the file. Java's `${property}` in a value stays as it is.

Not here: what a broker makes of it (security/login/login_file.py).
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.jaas import MODULES, JaasEntry, JaasError, parse_jaas_file

VARIABLE = "KAFKA_OPTS"
OPTION = "java.security.auth.login.config"
CLIENT_SECTION = "KafkaClient"
_LOGINS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.username",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.config",
    }
)
"""Settings of Java's clients and librdkafka's that name a login without the file."""
_ZOOKEEPER_SECTION_OPTION = "zookeeper.sasl.clientconfig"
_ZOOKEEPER_OPTION = "zookeeper.sasl.client"


class LoginFile(NamedTuple):
    """The sections of the file at `path`. `zookeeper_section`: the name of the one for ZooKeeper; None: no
    login there, whatever the file says."""

    path: str
    sections: Mapping[str, Sequence[JaasEntry]]
    zookeeper_section: str | None

    def entry(self, mechanism: str, *names: str) -> JaasEntry | None:
        """The login of a mechanism in the first of these sections that there is. Of several with the same
        module each adds the options that those before it lack."""
        section = next((self.sections[name] for name in names if name in self.sections), ())
        fitting = [each for each in section if each.module_name == MODULES.get(mechanism)]
        if not fitting:
            return None
        options = {name: value for each in reversed(fitting) for name, value in each.options.items()}
        return fitting[0]._replace(options=options)


def login_file(environment: Mapping[str, str]) -> LoginFile | None:
    """The file that the environment names, read; None if it names none. CredentialsError: it cannot be read
    or is not in JAAS notation; nothing of its values is in the message."""
    if f"-D{OPTION}=" not in environment.get(VARIABLE, ""):
        return None
    properties = _properties(environment[VARIABLE])
    path = _path(properties.get(OPTION, ""))
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise CredentialsError(
            f"{VARIABLE} names the file of logins {path}, which cannot be read: {why}"
        ) from None
    try:
        sections = parse_jaas_file(text)
    except JaasError as error:
        raise CredentialsError(f"{VARIABLE} names the file of logins {path}: {error}") from None
    at_zookeeper = properties.get(_ZOOKEEPER_OPTION, "true").lower() != "false"
    zookeeper_section = properties.get(_ZOOKEEPER_SECTION_OPTION, "Client") if at_zookeeper else None
    return LoginFile(path, sections, zookeeper_section)


def with_client_login(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """A client's settings with the login of the file's section KafkaClient, where they ask for SASL and name
    no login themselves. CredentialsError."""
    given = dict(settings)
    protocol = given.get("security.protocol", "").strip().upper()
    if not protocol.startswith("SASL") or _LOGINS & given.keys():
        return given
    found = login_file(environment)
    if found is None:
        return given
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", "GSSAPI")).strip().upper()
    entry = found.entry(mechanism, CLIENT_SECTION)
    if entry is None:
        raise CredentialsError(
            f"the file of logins {found.path} has no section {CLIENT_SECTION} with the login module of "
            f"{mechanism} ({MODULES.get(mechanism, 'unknown')})"
        )
    given["sasl.jaas.config"] = entry.text
    return given


def _properties(options: str) -> dict[str, str]:
    """Java's properties among its command-line options."""
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.split()
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


def _path(named: str) -> str:
    """A file's path, from a path or a URL; a second `=` means that no other file is read, and none is."""
    named = named.removeprefix("=")
    if not named.startswith("file:"):
        return named
    return unquote(urlparse(named).path)
