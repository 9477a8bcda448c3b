"""kafka-configs: shows and changes settings of topics, brokers, groups and clients.

The first letters of an entity type are its short form: `--topic orders` is `--entity-type topics
--entity-name orders`. Quotas and SCRAM users are asked for too; what the broker does not keep, it refuses in
its own words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.client.admin.configs import (
    ALL_BROKERS,
    BROKER,
    LOGGER,
    TOPIC,
    Config,
    Source,
    alter_configs,
    describe_configs,
)
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.routing import ask_any, metadata
from moldau.common.protocol.errors import ErrorCode
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.options import Given, Option, Parser, flag
from moldau.tools.kafka.problems import CommandLineError, ToolError
from moldau.tools.kafka.queries import reaching
from moldau.tools.kafka.queries.refusals import told

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

KINDS = {
    "topics": TOPIC,
    "clients": 0,
    "users": 0,
    "brokers": BROKER,
    "ips": 0,
    "client-metrics": 16,
    "groups": 32,
    "broker-loggers": LOGGER,
}
SHORT = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "group": "groups",
    "client-metrics": "client-metrics",
}
DEFAULTS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
OWN = {
    TOPIC: Source.DYNAMIC_TOPIC_CONFIG,
    BROKER: Source.DYNAMIC_BROKER_CONFIG,
    LOGGER: Source.DYNAMIC_BROKER_LOGGER_CONFIG,
    16: Source.DYNAMIC_CLIENT_METRICS_CONFIG,
    32: Source.DYNAMIC_GROUP_CONFIG,
}
"""The source of a resource's own values, by the kind of resource."""

PARSER = Parser(
    "kafka-configs",
    "Shows and changes the settings of topics, brokers, groups, users and clients.",
    (
        reaching.BOOTSTRAP,
        Option("bootstrap-controller", "controller to connect to", "The same as --bootstrap-server here."),
        reaching.ZOOKEEPER,
        reaching.COMMAND_CONFIG,
        flag("describe", "Show settings."),
        flag("alter", "Change settings."),
        flag("all", "With --describe: defaults too."),
        flag("force", "No effect: nothing is asked."),
        Option("entity-type", "String", f"One of {', '.join(KINDS)}."),
        Option("entity-name", "String", "The topic, the broker's id, the group, ..."),
        flag("entity-default", "The defaults of the entity type."),
        *(Option(short, "String", f"An entity of the type {kind}.") for short, kind in SHORT.items()),
        *(flag(short, f"The defaults of {kind}.") for short, kind in DEFAULTS.items()),
        Option("add-config", "String", "What to set: k1=v1,k2=[v1,v2]."),
        Option("add-config-file", "String", "A properties file of what to set."),
        Option("delete-config", "config keys to be deleted", "What to reset to its default: k1,k2."),
    ),
)


class Entity(NamedTuple):
    """What is shown or changed. `name` is "" for the defaults of the kind, and None for all of the kind.
    `beside`: the client of a user, or the user of a client."""

    kind: str
    name: str | None
    beside: tuple[str, str | None] | None = None


def main(words: Sequence[str]) -> int:
    """Run one command line; return its exit code."""
    given = PARSER.parse(words)
    entity = _entity(given)
    _check(given, entity)
    if given.flag("bootstrap-controller"):
        given.values.setdefault("bootstrap-server", given.values["bootstrap-controller"])
    settings = _settings(given, words) if given.flag("alter") else {}
    with reaching.cluster(given) as cluster:
        try:
            if given.flag("describe"):
                _describe(cluster, entity, everything=given.flag("all"))
            else:
                _alter(cluster, entity, settings)
        except KafkaProblem as problem:
            raise _failed(words, told(problem)) from None
    return 0


def _failed(words: Sequence[str], reason: str) -> ToolError:
    """Kafka's error, which repeats the command line; not where a password stands in it."""
    shown = " ".join("[hidden]" if "password" in each else each for each in words)
    return ToolError(f"Error while executing config command with args '{shown}'\n{reason}")


def _entity(given: Given) -> Entity:
    """Return the one entity of the command line. CommandLineError in Kafka's words, in its order."""
    if sum(given.flag(each) for each in ("alter", "describe")) != 1:
        raise CommandLineError("Command must include exactly one action: --describe, --alter")
    PARSER.exclude(given, "alter", "describe")
    PARSER.exclude(given, "describe", "add-config", "delete-config", "add-config-file")
    kinds = [*given.texts("entity-type")]
    kinds += [kind for name, kind in (SHORT | DEFAULTS).items() if given.flag(name)]
    if not kinds:
        line = PARSER.line([*given.typed, "--entity-type", "topics"])
        raise CommandLineError("At least one entity type must be specified", line)
    for kind in kinds:
        if kind not in KINDS:
            raise CommandLineError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(KINDS)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    double = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if double:
        raise CommandLineError(f"Duplicate entity type(s) specified: {','.join(double)}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise CommandLineError("Only 'users' and 'clients' entity types may be specified together")
    names = _names_as_typed(given)
    names += [each for short in SHORT for each in given.texts(short)]
    names += ["" for short in DEFAULTS if given.flag(short)]
    if len(names) > len(kinds):
        raise CommandLineError(f"One entity at a time, and not {', '.join(names)}")
    found = [*zip(kinds, [*names, *[None] * (len(kinds) - len(names))], strict=True)]
    return Entity(*found[0], beside=found[1] if len(found) > 1 else None)


def _names_as_typed(given: Given) -> list[str]:
    """Return the values of --entity-name and, for each --entity-default, "", in the order of the line: they
    belong to the entity types in that order."""
    values = iter(given.texts("entity-name"))
    options = [word.lstrip("-").partition("=")[0] for word in given.typed if word.startswith("-")]
    found = [next(values, "") if each == "entity-name" else "" for each in options if each in _NAMING]
    return [*found, *values]


_NAMING = ("entity-name", "entity-default")


def _check(given: Given, entity: Entity) -> None:
    kind, name, beside = entity
    if not any(map(given.flag, ("bootstrap-server", "bootstrap-controller", "zookeeper"))):
        line = PARSER.line([*given.typed, "--bootstrap-server", reaching.DEFAULT_SERVER])
        raise CommandLineError("Either --bootstrap-server or --bootstrap-controller must be specified.", line)
    if given.flag("bootstrap-server") and given.flag("bootstrap-controller"):
        raise CommandLineError(
            "Only one of --bootstrap-server or --bootstrap-controller can be specified",
            "Leave one of them out.",
        )
    if kind in ("brokers", "broker-loggers") and name and not re.fullmatch("-?[0-9]{1,9}", name):
        raise CommandLineError(
            f"The entity name for {kind} must be a valid integer broker id, but it is: {name}"
        )
    if given.flag("describe"):
        if name == "" and kind in ("topics", "groups", "client-metrics", "broker-loggers"):
            raise CommandLineError(f"--entity-default must not be specified with --describe of {kind}")
        if name is None and kind == "broker-loggers":
            raise CommandLineError(
                f"An entity name must be specified with --describe of {kind}",
                PARSER.line([*given.typed, "--entity-name", "BROKER-ID"]),
            )
        return
    shorts = [each for short in SHORT for each in given.texts(short)]
    if "" in (each.strip() for each in (*given.texts("entity-name"), *shorts)):
        # Kafka changes the defaults of everybody then: seldom what a script with an empty variable means.
        raise CommandLineError(
            "The entity name is empty", "Give --entity-default if the defaults are to be changed."
        )
    if kind in ("users", "clients", "brokers", "ips"):
        if name is not None and beside is not None and beside[1] is None:
            raise CommandLineError("An entity name must be specified for every entity type")
        if name is None:
            raise CommandLineError(
                "An entity-name or default entity must be specified with --alter of users, clients, "
                "brokers or ips"
            )
    elif not name:
        raise CommandLineError(f"An entity name must be specified with --alter of {kind}")
    if given.flag("add-config") and given.flag("add-config-file"):
        raise CommandLineError("Only one of --add-config or --add-config-file must be specified")
    if not any(map(given.flag, ("add-config", "add-config-file", "delete-config"))):
        raise CommandLineError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with "
            "--alter",
            PARSER.line([*given.typed, "--add-config", "NAME=VALUE"]),
        )


def _settings(given: Given, words: Sequence[str]) -> dict[str, str | None]:
    """Return what to set, and (None) what to reset."""
    found: dict[str, str | None] = {}
    if given.flag("add-config-file"):
        try:
            found |= read_properties(given.text("add-config-file") or "")
        except ToolError as problem:
            raise _failed(words, str(problem)) from None
    for text in given.texts("add-config"):
        found |= parse_added(text)
    for text in given.texts("delete-config"):
        found |= {name.strip(): None for name in text.split(",")}
    return found


def parse_added(text: str) -> dict[str, str]:
    """Parse k1=v1,k2=[v1,v2]: brackets keep commas within a value. ToolError in Kafka's words."""
    wrong = ToolError(
        "requirement failed: Invalid entity config: all configs to be added must be in the format "
        '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
    )
    found: dict[str, str] = {}
    rest = text.strip()
    if not rest:
        raise wrong
    while rest:
        name, equals, value = rest.partition("=")
        if not equals or "," in name:
            raise wrong
        if value.startswith("[") and "]" in value:
            value, _, rest = value[1:].partition("]")
            rest = rest.lstrip(", ")
        else:
            value, _, rest = value.partition(",")
            if "=" in value:
                raise wrong
        found[name.strip()] = value.strip()
    return found


def _describe(cluster: Cluster, entity: Entity, *, everything: bool) -> None:
    kind, name, _ = entity
    if kind in ("users", "clients", "ips"):
        from moldau.tools.kafka.queries.quotas import describe_quotas

        describe_quotas(cluster, entity)
        if kind == "users" and name != "" and entity.beside is None:
            from moldau.tools.kafka.queries.scram_users import describe_scram_users

            describe_scram_users(cluster, name)
        return
    for each in _names(cluster, kind) if name is None else [name]:
        if each == "":
            print("Default configs for brokers in the cluster are:")
            defaults = describe_configs(cluster, BROKER, [ALL_BROKERS])[ALL_BROKERS]
            _print_entries(defaults, Source.DYNAMIC_DEFAULT_BROKER_CONFIG, everything)
            continue
        if not _exists(cluster, kind, each):
            print(f"The {kind.removesuffix('s')} '{each}' doesn't exist and doesn't have dynamic config.")
            continue
        print(f"{'All' if everything else 'Dynamic'} configs for {_singular(kind)} {each} are:")
        entries = describe_configs(cluster, KINDS[kind], [each])[each]
        _print_entries(entries, OWN[KINDS[kind]], everything)


def _singular(kind: str) -> str:
    return kind if kind == "client-metrics" else kind[:-1]


def _names(cluster: Cluster, kind: str) -> list[str]:
    """Return all entities of a kind, as Kafka lists them."""
    if kind == "topics":
        return sorted(each.name for each in metadata(cluster).topics if each.name)
    if kind in ("brokers", "broker-loggers"):
        ids = [str(each.node_id) for each in metadata(cluster).brokers]
        return [*sorted(ids, key=int), *([""] if kind == "brokers" else [])]
    from moldau.common.protocol.messages.list_config_resources import ListConfigResourcesRequest

    answer = ask_any(cluster, ListConfigResourcesRequest(resource_types=[KINDS[kind]]))
    return sorted(each.resource_name for each in answer.config_resources)


def _exists(cluster: Cluster, kind: str, name: str) -> bool:
    if kind == "topics":
        return any(each.name == name for each in metadata(cluster).topics)
    if kind in ("brokers", "broker-loggers"):
        return any(str(each.node_id) == name for each in metadata(cluster).brokers)
    return kind != "client-metrics" or name in _names(cluster, kind)


def _print_entries(entries: Sequence[Config], own: Source, everything: bool) -> None:
    for each in sorted(entries, key=lambda entry: entry.name):
        if everything or each.source == own:
            synonyms = ", ".join(f"{one.source.name}:{one.name}={_shown(one.value)}" for one in each.synonyms)
            sensitive = "true" if each.is_sensitive else "false"
            print(f"  {each.name}={_shown(each.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _alter(cluster: Cluster, entity: Entity, settings: dict[str, str | None]) -> None:
    kind, name, _ = entity
    if any(each.startswith("SCRAM-") for each in settings):
        _alter_scram(cluster, entity, settings)
        return
    if kind in ("users", "clients", "ips"):
        from moldau.tools.kafka.queries.quotas import alter_quotas

        alter_quotas(cluster, entity, settings)
        return
    if kind in ("brokers", "broker-loggers") and name and not _exists(cluster, kind, name):
        raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {name}")
    changes = {key: (value is not None, value) for key, value in settings.items()}
    for problem in alter_configs(cluster, KINDS[kind], {name or "": changes}).values():
        raise problem
    if name == "":
        print("Completed updating default config for brokers in the cluster.")
    else:
        print(f"Completed updating config for {_singular(kind)} {name}.")
    sys.stdout.flush()


def _wrong(text: str) -> KafkaProblem:
    return KafkaProblem(ErrorCode.INVALID_REQUEST, text)


def _alter_scram(cluster: Cluster, entity: Entity, settings: dict[str, str | None]) -> None:
    """Change a user's SCRAM credentials. ToolError; KafkaProblem in Kafka's words."""
    from moldau.tools.kafka.queries.scram_users import alter_scram_user, is_scram

    kind, name, beside = entity
    others = [each for each in settings if not is_scram(each)]
    if kind != "users" or beside is not None:
        shown = "ips" if kind == "ips" else "clients"
        raise _wrong(
            f"Only quota configs can be added for '{shown}' using --bootstrap-server. Unexpected config "
            f"names: {', '.join(settings)}"
        )
    if not name:
        raise _wrong(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    if any(each.startswith("SCRAM-") for each in others):
        raise _wrong(
            "Only quota and SCRAM credential configs can be added for 'users' using --bootstrap-server. "
            f"Unexpected config names: {', '.join(others)}"
        )
    if others:
        raise _wrong(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )
    alter_scram_user(cluster, name, settings)
    sys.stdout.flush()
