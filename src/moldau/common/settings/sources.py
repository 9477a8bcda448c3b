"""The sources of a broker's static settings: file, environment, overrides, in that order.

`load` merges the three (a later one wins), checks every value, and returns `StaticSettings`: the typed
settings, the texts that were set explicitly (DescribeConfigs distinguishes them from defaults), and warnings.
An unknown name is a warning that names the nearest known one. Settings that Kafka 4 removed are accepted with
a warning, so that an old server.properties still starts.

Environment names are those of Kafka's container image: KAFKA_LOG_RETENTION_MS is log.retention.ms; `_` stands
for `.`, `__` for `_`, `___` for `-`.

Variables such as `${file:...}` are filled in after merging (providers.py).
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from moldau.common.core.properties import parse_properties
from moldau.common.settings.broker import OPEN_PREFIXES, REMOVED_NAMES, REMOVED_PREFIXES, BrokerSettings
from moldau.common.settings.checks import cleaner_complaint
from moldau.common.settings.prefixed import check_prefixed, is_prefixed, row_of
from moldau.common.settings.rows import SettingError
from moldau.common.settings.table import parse_all
from moldau.common.settings.topic import TopicSettings

_DEDUPE = "log.cleaner.dedupe.buffer.size"
_NOT_SETTINGS = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HOME",
        "KAFKA_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_CMD_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_DEBUG",
        "KAFKA_CLUSTER_ID",
        "KAFKA_BOOTSTRAP_SERVERS",
    }
)
"""Variables of the container image and its scripts that are no settings."""


class StaticSettings:
    """The settings at the start. Immutable by convention.

    `broker`: the typed settings; `texts`: the explicitly set ones as text, by name; `warnings`: messages for
    the log.
    """

    __slots__ = ("broker", "texts", "warnings")

    def __init__(
        self, broker: BrokerSettings, texts: Mapping[str, str], warnings: tuple[str, ...] = ()
    ) -> None:
        self.broker = broker
        self.texts = texts
        self.warnings = warnings

    @classmethod
    def of(cls, broker: BrokerSettings) -> "StaticSettings":
        """Static settings in which every value that differs from its default counts as set (for tests
        and embedding).
        """
        texts: dict[str, str] = {}
        for name, row in BrokerSettings.ROWS.items():
            value = broker.get(name)
            if value != row.default and (text := row.text(value)) is not None:
                texts[name] = text
        return cls(broker, {**texts, **broker.prefixed})


def load(
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> StaticSettings:
    """Settings from a property file, the environment (KAFKA_*, MOLDAU_*) and `name=value` overrides.

    Raises SettingError for a value that a setting cannot take or a provider does not have, and for an
    override without `=`, OSError when the file cannot be read.
    """
    texts: dict[str, str] = {}
    if file is not None:
        try:
            texts.update(parse_properties(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise SettingError(str(file), f"{file}: {error}") from None
    texts.update(from_environment(environment or {}))
    texts.update(from_overrides(overrides))
    return from_texts(texts, environment or {})


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings among environment variables, by setting name."""
    texts: dict[str, str] = {}
    for variable, value in environment.items():
        if variable.startswith("KAFKA_") and variable not in _NOT_SETTINGS:
            texts[_setting_name(variable.removeprefix("KAFKA_"))] = value
        elif variable.startswith("MOLDAU_"):
            name = _setting_name(variable)
            if name in BrokerSettings.ROWS:
                texts[name] = value
    return texts


def _setting_name(variable: str) -> str:
    text = variable.lower().replace("___", "-").replace("__", "\0").replace("_", ".")
    return text.replace("\0", "_")


def from_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """`name=value` arguments as pairs; SettingError where the `=` is missing."""
    texts: dict[str, str] = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise SettingError(override, f"'{override}' is not of the form name=value")
        texts[name.strip()] = value.strip()
    return texts


def from_texts(texts: Mapping[str, str], environment: Mapping[str, str] | None = None) -> StaticSettings:
    """Static settings from (name, text) pairs of any origin; `environment` is what `${env:...}` names."""
    known: dict[str, str] = {}
    prefixed: dict[str, str] = {}
    warnings: list[str] = []
    if any("${" in value for value in texts.values()):
        texts, warnings = _filled_in(texts, environment or {})
    for name, value in texts.items():
        if name in BrokerSettings.ROWS:
            known[name] = value
        elif is_prefixed(name):
            prefixed[name] = value
            if row_of(name) is None:
                warnings.append(_warning(name))
        elif name.startswith("config.providers."):
            continue
        else:
            warnings.append(_warning(name))
    if "inter.broker.listener.name" in known and "security.inter.broker.protocol" in known:
        raise SettingError(
            "inter.broker.listener.name",
            "set either inter.broker.listener.name or security.inter.broker.protocol, not both",
        )
    if "broker.id" in known and "node.id" not in known and known["broker.id"].strip() != "-1":
        known["node.id"] = known["broker.id"]
    cleared = {
        name for name, value in known.items() if not value.strip() and BrokerSettings.ROWS[name].nullable
    }
    given = {name: value for name, value in known.items() if name not in cleared}
    warnings += [
        f"{name} is set, but has no effect in this version of Moldau"
        for name in given
        if name.startswith(("ssl.", "sasl.", "authorizer.")) and not BrokerSettings.ROWS[name].effective
    ]
    check_prefixed(prefixed)
    broker = parse_all(BrokerSettings, given.items())
    cleaner = cleaner_complaint(broker.log_cleaner_threads, broker.log_cleaner_dedupe_buffer_size)
    if cleaner is not None and not {"log.cleaner.threads", _DEDUPE}.isdisjoint(given):
        raise SettingError(_DEDUPE, cleaner)
    if prefixed:
        broker = broker.replace(prefixed=prefixed)
    if any(name.startswith("config.providers") for name in texts):
        declared = {name: value for name, value in texts.items() if name.startswith("config.providers")}
        broker = broker.replace(fill_in=_filler(declared, environment or {}))
    return StaticSettings(broker, {**given, **prefixed}, tuple(warnings))


def _filled_in(texts: Mapping[str, str], environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings with their variables replaced, and warnings about those that nothing replaces."""
    from moldau.common.settings.providers import fill_in, undeclared  # only when there are any

    warnings = [
        f"{name} names a value elsewhere (${{...}}), but config.providers does not declare the provider: it "
        "is taken as it stands"
        for name in undeclared(texts)
    ]
    return fill_in(texts, environment), warnings


def _filler(declared: Mapping[str, str], environment: Mapping[str, str]) -> Callable[[str, str], str]:
    """What fills in the variables of a setting that is changed later, from name and value. SettingError."""
    from moldau.common.settings.providers import fill_in

    return lambda name, value: fill_in({**declared, name: value}, environment)[name]


def _warning(name: str) -> str:
    if name in REMOVED_NAMES or name.startswith(REMOVED_PREFIXES):
        return f"{name} was removed in Kafka 4 and is ignored"
    if name.startswith(OPEN_PREFIXES):
        return f"{name} is a Kafka setting that Moldau does not have yet; it is ignored"
    for topic_name, row in TopicSettings.ROWS.items():
        if topic_name == name and row.synonyms:
            default = row.synonyms[0]
            return f"{name} is a topic setting and ignored; the default of all topics is set by {default}"
    import difflib  # only when somebody mistyped

    near = difflib.get_close_matches(name, BrokerSettings.ROWS, n=1, cutoff=0.6)
    return f"unknown setting {name} is ignored" + (f"; did you mean {near[0]}?" if near else "")
