"""A secured cluster on this machine (`moldau cluster start --secure`): TLS, logins and ACLs, for a first try.

    FOLDER/security/ca.pem               whom clients trust
    FOLDER/security/ca-key.pem           the private authority's key
    FOLDER/security/broker.pem           key and certificate of all brokers, for localhost
    FOLDER/security/secrets.properties   passwords, which server.properties names and does not hold
    FOLDER/client.properties             settings of the user admin, for --command-config

Brokers log in to each other by PLAIN over TLS as the user broker; its password is in a file, since SCRAM
credentials are metadata, which the first broker does not have yet. The user admin has SCRAM credentials,
made once the cluster is whole. Both are super users; everybody else needs ACLs.

Brokers and ZooKeeper servers log in at ZooKeeper by SASL, as one user with a password of its own, and the
nodes are that user's: settings and SCRAM credentials are among them. Every file with a secret is readable by
its owner only, and so is the cluster's whole folder.

Not here: certificates for other users (`moldau security certificates`), a cluster that runs unsecured
(docs/security-rolling-change.md).
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

from moldau.common.core.properties import parse_properties
from moldau.ensemble import Login
from moldau.tools.cluster.plan import Plan
from moldau.tools.shared.errors import CommandError

ADMIN, BROKER, ZOOKEEPER = "admin", "broker", "zookeeper"
MECHANISM = "SCRAM-SHA-512"
PROTOCOL = "SASL_SSL"
CLIENT_FILE = "client.properties"
_FOLDER, _SECRETS = "security", "secrets.properties"
_MODULES = "org.apache.kafka.common.security"
_HOSTS = ("localhost", "127.0.0.1", "::1")
_PASSWORD_BYTES = 24
_ITERATIONS = 4096
_ANSWER_SECONDS = 30.0


def prepare(root: Path, plan: Plan, *, something_runs: bool) -> None:
    """Make the certificates, passwords and client settings that do not exist yet. CommandError.

    A cluster of an earlier release, whose ZooKeeper asked for no login, gets one when nothing of it runs.
    """
    from moldau.common.credentials.errors import CredentialsError

    root.chmod(0o700)
    folder = root / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    if not (folder / _SECRETS).exists():
        try:
            _make_certificates(folder)
        except CredentialsError as problem:
            raise CommandError(str(problem)) from None
        _write_passwords(folder, {})
    elif not something_runs:
        _write_passwords(folder, _passwords(root))
    _write(root / CLIENT_FILE, _client_file(root, plan))


def zookeeper_login(root: Path) -> Login | None:
    """What ZooKeeper asks for; None: of an earlier release, and has run on since. CommandError."""
    password = _passwords(root).get(ZOOKEEPER)
    return None if password is None else Login(ZOOKEEPER, password)


def _zookeeper_settings(root: Path) -> dict[str, str]:
    if zookeeper_login(root) is None:
        return {}
    return {
        "moldau.zookeeper.sasl.jaas.config": Login(ZOOKEEPER, _reference(root, ZOOKEEPER)).jaas,
        "zookeeper.set.acl": "true",
    }


def _reference(root: Path, name: str) -> str:
    """Stands for a password in server.properties."""
    return f"${{file:{root.absolute() / _FOLDER / _SECRETS}:{name}}}"


def broker_settings(root: Path, address: str) -> dict[str, str]:
    """The settings of a broker that serves clients at this address; none of them is a secret."""
    folder = root.absolute() / _FOLDER
    word = _reference(root, BROKER)
    prefix = f"listener.name.{PROTOCOL.lower()}"
    return {
        "listeners": f"{PROTOCOL}://{address}",
        "security.inter.broker.protocol": PROTOCOL,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        f"{prefix}.plain.sasl.jaas.config": (
            f'{_MODULES}.plain.PlainLoginModule required username="{BROKER}" password="{word}" '
            f'user_{BROKER}="{word}";'
        ),
        f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{BROKER};User:{ADMIN}",
        **_zookeeper_settings(root),
    }


def admin_settings(root: Path) -> dict[str, str]:
    """The settings of a client that logs in as a broker: it needs no metadata for that."""
    return {
        "security.protocol": PROTOCOL,
        "ssl.ca.location": str(root / _FOLDER / "ca.pem"),
        "sasl.mechanisms": "PLAIN",
        "sasl.username": BROKER,
        "sasl.password": _passwords(root)[BROKER],
    }


def make_admin(root: Path, plan: Plan) -> None:
    """Give the user admin its SCRAM credentials, unless it has some. CommandError."""
    from moldau.client.admin.scram import ScramCredential, alter_scram_users, find_scram_users
    from moldau.client.errors import ClientError
    from moldau.tools.shared.connection import cluster_of
    from moldau.tools.shared.errors import explain_kafka_failure

    salt = secrets.token_bytes(_PASSWORD_BYTES)
    credential = ScramCredential(MECHANISM, _ITERATIONS, salt, _passwords(root)[ADMIN])
    try:
        with cluster_of(plan.bootstrap, admin_settings(root), _ANSWER_SECONDS) as cluster:
            if ADMIN not in find_scram_users(cluster, [ADMIN]):
                alter_scram_users(cluster, {ADMIN: [credential]}, {})
    except ClientError as failure:
        reason = explain_kafka_failure(failure) or str(failure)
        raise CommandError(f"the user {ADMIN} could not be made: {reason}; start it again") from None


def remove(root: Path) -> None:
    """Delete what `prepare` has made."""
    import shutil

    (root / CLIENT_FILE).unlink(missing_ok=True)
    shutil.rmtree(root / _FOLDER, ignore_errors=True)


def _client_file(root: Path, plan: Plan) -> str:
    return (
        f"# Settings of the user {ADMIN}: for --command-config, and for any Java client\n"
        f"bootstrap.servers={plan.bootstrap}\n"
        f"security.protocol={PROTOCOL}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={(root / _FOLDER / 'ca.pem').absolute()}\n"
        f"sasl.mechanism={MECHANISM}\n"
        f"sasl.jaas.config={_MODULES}.scram.ScramLoginModule required \\\n"
        f'    username="{ADMIN}" password="{_passwords(root)[ADMIN]}";\n'
    )


def _passwords(root: Path) -> dict[str, str]:
    path = root / _FOLDER / _SECRETS
    try:
        return parse_properties(path.read_text())
    except (OSError, ValueError) as problem:
        raise CommandError(
            f"{path} cannot be read ({problem}): begin anew with `moldau cluster purge`"
        ) from None


def _write_passwords(folder: Path, known: Mapping[str, str]) -> None:
    """Write those that are known, and new ones for who has none yet."""
    words = {
        name: known.get(name) or secrets.token_urlsafe(_PASSWORD_BYTES) for name in (BROKER, ADMIN, ZOOKEEPER)
    }
    if words != known:
        _write(folder / _SECRETS, "".join(f"{name}={word}\n" for name, word in words.items()))


def _make_certificates(folder: Path) -> None:
    from moldau.common.credentials.certificates.authority import Authority

    now_ms = time.time_ns() // 1_000_000
    authority = Authority.make("Moldau test cluster", now_ms)
    _write(folder / "ca-key.pem", authority.key)
    _write(folder / "broker.pem", authority.issue(BROKER, _HOSTS, now_ms).keystore)
    (folder / "ca.pem").write_text(authority.certificate)


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first moment on."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)
