"""Settings in Burrow's own file, burrow.toml.

    [cluster.NAME]         servers, client-profile, topic-refresh, offset-refresh (seconds)
    [consumer.NAME]        cluster, offsets-topic, start-latest, group-allowlist, group-denylist
    [storage.NAME]         intervals, min-distance, expire-group (seconds), group-allowlist, group-denylist
    [evaluator.NAME]       allowed-lag, minimum-complete, and our own stop-after (seconds)
    [client-profile.NAME]  client-id, tls, sasl; and `settings`, a table of Kafka's own names
    [tls.NAME] cafile certfile keyfile      [sasl.NAME] mechanism username password
    [httpserver.NAME]      address            beside it, listeners and logins by moldau.http.* in [http]
    [notifier.NAME]        class-name http, slack or email; see notify/

What is not known is warned of, not refused, so that a file of Burrow's works as it is. Not here: its
[zookeeper] section (a lock between several Burrows): one process notifies.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.common.settings.rows import SettingError
from moldau.common.settings.table import table
from moldau.services.http.settings import HttpSettingsPart, settings_from
from moldau.services.lag.reading.cluster_facts import Intervals
from moldau.services.lag.reading.offsets_topic import OFFSETS_TOPIC
from moldau.services.lag.store import Limits

DEFAULT_PORT = 8000
_SECTIONS = frozenset(
    {
        "client-profile", "cluster", "consumer", "evaluator", "general", "http", "httpserver", "logging",
        "notifier", "sasl", "storage", "tls", "zookeeper",
    }
)  # fmt: skip


@table
class LagSettings(HttpSettingsPart):
    """The HTTP side; the section [http]."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """One cluster that is watched."""

    name: str
    servers: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka's names; may hold passwords."""
    intervals: Intervals = field(default_factory=Intervals)
    offsets_topic: str = OFFSETS_TOPIC
    start_latest: bool = False
    limits: Limits = field(default_factory=Limits)
    accepts: Callable[[str], bool] = lambda group: True


@dataclass(frozen=True, slots=True)
class NotifierSettings:
    """One notifier, as it stands in the file."""

    name: str
    kind: str
    given: Mapping[str, Any] = field(repr=False)
    accepts: Callable[[str], bool] = lambda group: True


@dataclass(frozen=True, slots=True)
class LagConfiguration:
    """Everything."""

    http: LagSettings
    clusters: Sequence[ClusterSettings]
    notifiers: Sequence[NotifierSettings] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The file, for /v3/config."""
    warnings: Sequence[str] = ()


def configuration_of_file(path: Path, texts: Mapping[str, str] | None = None) -> LagConfiguration:
    """From a file; `texts` are settings of the HTTP side that win. SettingError."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SettingError("config", f"{path} cannot be read: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingError("config", f"{path} is not TOML: {problem}") from None
    return configuration_of(document, texts)


def configuration_beside(servers: str, texts: Mapping[str, str]) -> LagConfiguration:
    """Of a service beside one broker: `config` names a file, `client.NAME` are a client's settings, the rest
    is of the HTTP side. SettingError."""
    client = {name[7:]: value for name, value in texts.items() if name.startswith("client.")}
    http = {name: value for name, value in texts.items() if name != "config" and name[7:] not in client}
    if "config" in texts:
        return configuration_of_file(Path(texts["config"]), http)
    return configuration_of(single_cluster("local", servers, client), http)


def single_cluster(name: str, servers: str, client: Mapping[str, str]) -> dict[str, Any]:
    """What a file with one cluster says."""
    return {
        "cluster": {name: {"servers": servers.split(","), "client-profile": "only"}},
        "client-profile": {"only": {"settings": dict(client)}},
    }


def configuration_of(document: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> LagConfiguration:
    """From a parsed file. SettingError."""
    warnings = [f"the section [{name}] is not known" for name in document if name not in _SECTIONS]
    if "zookeeper" in document:
        warnings.append("[zookeeper] has no effect: one process notifies, and needs no lock")
    clusters = [_cluster(name, document) for name in _tables(document, "cluster")]
    if not clusters:
        raise SettingError("cluster", "no cluster is named: write a section [cluster.NAME] with servers")
    given = {name: _text(value) for name, value in _section(document, "http").items()}
    addresses = [
        str(each.get("address", ""))
        for each in _tables(document, "httpserver").values()
        if each.get("address")
    ]
    if addresses and "listeners" not in given:
        given["listeners"] = ",".join(_listener(each) for each in addresses)
    http, unknown = settings_from(LagSettings, {**given, **(texts or {})})
    notifiers = [_notifier(name, each) for name, each in _tables(document, "notifier").items()]
    return LagConfiguration(http, clusters, notifiers, document, [*warnings, *unknown])


def _cluster(name: str, document: Mapping[str, Any]) -> ClusterSettings:
    given = _tables(document, "cluster")[name]
    servers = given.get("servers")
    if not servers or not isinstance(servers, (list, str)):
        raise SettingError("servers", f"[cluster.{name}] names no servers: servers = ['HOST:PORT']")
    consumer: Mapping[str, Any] = next(
        (each for each in _tables(document, "consumer").values() if each.get("cluster", name) == name), {}
    )
    storage: Mapping[str, Any] = next(iter(_tables(document, "storage").values()), {})
    evaluator: Mapping[str, Any] = next(iter(_tables(document, "evaluator").values()), {})
    profile = consumer.get("client-profile") or given.get("client-profile") or ""
    limits = Limits(
        intervals=_number(storage, "intervals", 10, least=2),
        distance_ms=_number(storage, "min-distance", 0) * 1000,
        expire_ms=_number(storage, "expire-group", 604_800, least=1) * 1000,
        allowed_lag=_number(evaluator, "allowed-lag", 0),
        stop_after_ms=_number(evaluator, "stop-after", 60) * 1000,
        minimum_complete=float(evaluator.get("minimum-complete", 0.0)),
    )
    accepted = [group_filter(each) for each in (storage, consumer)]
    return ClusterSettings(
        name=name,
        servers=servers if isinstance(servers, str) else ",".join(map(str, servers)),
        client=_client(str(profile), document),
        intervals=Intervals(
            _number(given, "topic-refresh", 60, least=1), _number(given, "offset-refresh", 10, least=1)
        ),
        offsets_topic=str(consumer.get("offsets-topic", OFFSETS_TOPIC)),
        start_latest=bool(consumer.get("start-latest", False)),
        limits=limits,
        accepts=lambda group: all(each(group) for each in accepted),
    )


def _client(profile: str, document: Mapping[str, Any]) -> dict[str, str]:
    """A client's settings by Kafka's names."""
    if not profile:
        return {}
    profiles = _tables(document, "client-profile")
    if profile not in profiles:
        raise SettingError("client-profile", f"there is no section [client-profile.{profile}]")
    given = profiles[profile]
    found = {"client.id": str(given["client-id"])} if "client-id" in given else {}
    tls_name, sasl_name = given.get("tls"), given.get("sasl")
    if tls_name:
        found |= _tls(str(tls_name), document)
    if sasl_name:
        sasl = _named(document, "sasl", str(sasl_name))
        found |= {
            "sasl.mechanism": str(sasl.get("mechanism", "PLAIN")),
            "sasl.username": str(sasl.get("username", "")),
            "sasl.password": str(sasl.get("password", "")),
        }
    if tls_name or sasl_name:
        found["security.protocol"] = ("SASL_" if sasl_name else "") + ("SSL" if tls_name else "PLAINTEXT")
    return found | {name: _text(value) for name, value in _section(given, "settings").items()}


def _tls(name: str, document: Mapping[str, Any]) -> dict[str, str]:
    given = _named(document, "tls", name)
    if given.get("noverify"):
        raise SettingError(
            "noverify", f"[tls.{name}] noverify: a broker's certificate is always checked; name its cafile"
        )
    found: dict[str, str] = {}
    if given.get("cafile"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(given["cafile"])}
    if given.get("certfile") or given.get("keyfile"):
        try:
            chain = Path(str(given.get("certfile", ""))).read_text(encoding="utf-8")
            key = Path(str(given.get("keyfile", ""))).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise SettingError("certfile", f"[tls.{name}] certfile and keyfile: {problem}") from None
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }
    return found


def _notifier(name: str, given: Mapping[str, Any]) -> NotifierSettings:
    kind = str(given.get("class-name", ""))
    if kind not in ("http", "email", "slack", "null"):
        raise SettingError(
            "class-name", f"[notifier.{name}] class-name is {kind!r}: write http, slack or email"
        )
    return NotifierSettings(name, kind, given, group_filter(given))


def group_filter(given: Mapping[str, Any]) -> Callable[[str], bool]:
    """By group-allowlist and group-denylist (older files: whitelist, blacklist), which are found anywhere in
    a name, as in Burrow. SettingError."""
    patterns = []
    for kind, older in (("allowlist", "whitelist"), ("denylist", "blacklist")):
        text = str(given.get(f"group-{kind}") or given.get(f"group-{older}") or "")
        try:
            patterns.append(compile_pattern(text) if text else None)
        except PatternError as problem:
            raise SettingError(f"group-{kind}", f"group-{kind} {text!r}: {problem}") from None
    allowed, denied = patterns

    def accepts(group: str) -> bool:
        if denied is not None and denied.search(group) is not None:
            return False
        return allowed is None or allowed.search(group) is not None

    return accepts


def _listener(address: str) -> str:
    """Burrow's address: a port alone means every interface there; it is written out here."""
    return f"http://0.0.0.0{address}" if address.startswith(":") else f"http://{address}"


def _tables(document: Mapping[str, Any], section: str) -> dict[str, Mapping[str, Any]]:
    found = _section(document, section)
    for name, each in found.items():
        if not isinstance(each, dict):
            raise SettingError(section, f"[{section}] {name} is no table: write [{section}.NAME]")
    return dict(found)


def _section(document: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = document.get(section, {})
    if not isinstance(found, dict):
        raise SettingError(section, f"{section} is no table: write [{section}]")
    return found


def _named(document: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    found = _tables(document, section).get(name)
    if found is None:
        raise SettingError(section, f"there is no section [{section}.{name}]")
    return found


def _number(given: Mapping[str, Any], name: str, default: int, *, least: int = 0) -> int:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(name, f"{name} = {value!r} is not a number from {least} on")
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
