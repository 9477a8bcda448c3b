"""kafka-features: describe, upgrade, downgrade, disable, feature-dependencies, version-mapping.

A cluster of Moldau has features of Kafka (docs/upgrading.md) and moldau.metadata.version; what a release of
Kafka would set besides is refused by the broker, and its answer is printed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.client.admin.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    describe_features,
    update_features,
)
from moldau.client.admin.topics import describe_cluster
from moldau.client.cluster import Cluster
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.subcommands import Subcommands, whole
from moldau.tools.kafka.problems import FAILED, CommandLineError, ToolError
from moldau.tools.kafka.queries.reaching import reach
from moldau.tools.kafka.releases import DEPENDENCIES, KNOWN_FEATURES, features_of, known_versions, level_name


class _Parser(Subcommands):
    """Kafka's tool has its own words for wrong command lines."""

    def error(self, message: str) -> Any:
        try:
            super().error(message)
        except CommandLineError as problem:
            text = str(problem).rpartition("error: ")[2]
            raise CommandLineError(
                f"Command line error: {text}. Type --help for help.", problem.hint
            ) from None


def main(words: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    given = _parser().parse_args(words)
    if given.command == "version-mapping":
        return print_mapping(given.release_version)
    if given.command == "feature-dependencies":
        return print_dependencies(given.feature)
    servers = given.bootstrap_server or given.bootstrap_controller
    if not servers:
        raise CommandLineError(
            "Command line error: You must specify either --bootstrap-controller or --bootstrap-server.. "
            "Type --help for help."
        )
    updates = {} if given.command == "describe" else _updates(given)
    settings = read_properties(given.command_config) if given.command_config else {}
    with reach(servers, settings) as cluster:
        if given.command == "describe":
            _describe(cluster, given.node_id)
            return 0
        return _update(cluster, given, updates)


def _parser() -> Subcommands:
    parser = _Parser(
        prog="kafka-features", description="Shows and changes the levels of a cluster's features."
    )
    parser.add_argument("--command-config", help="A file of client settings.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--bootstrap-server", help="A broker, as HOST:PORT.")
    which.add_argument("--bootstrap-controller", help="A controller: with Moldau a broker, too.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("describe", help="Show the features.")
    one.add_argument("--node-id", type=whole(32), help="Those of this broker; of any, if absent.")
    for name in ("upgrade", "downgrade"):
        one = commands.add_parser(name, help=f"{name.capitalize()} features.")
        one.add_argument("--metadata", help="The level of metadata.version, as a release; fixed with Moldau.")
        one.add_argument("--release-version", help="All features as this release of Kafka has them.")
        one.add_argument("--feature", action="append", default=[], help="NAME=LEVEL; may be repeated.")
        one.add_argument("--dry-run", action="store_true", help="Only say whether it is possible.")
        if name == "downgrade":
            one.add_argument("--unsafe", action="store_true", help="Even if metadata may be lost.")
    one = commands.add_parser("disable", help="Set features to level 0.")
    one.add_argument("--feature", action="append", default=[], help="The name; may be repeated.")
    one.add_argument("--unsafe", action="store_true", help="Even if metadata may be lost.")
    one.add_argument("--dry-run", action="store_true", help="Only say whether it is possible.")
    one = commands.add_parser("version-mapping", help="The features of a release of Kafka.")
    one.add_argument("--release-version", help="The release, such as 4.0.")
    one = commands.add_parser("feature-dependencies", help="What a feature's level needs.")
    one.add_argument("--feature", action="append", required=True, help="NAME=LEVEL; may be repeated.")
    return parser


def _describe(cluster: Cluster, node_id: int | None) -> None:
    if node_id is not None:
        brokers = [each.broker_id for each in describe_cluster(cluster).brokers]
        if node_id not in brokers:
            raise ToolError(f"there is no broker {node_id}: there are {', '.join(map(str, sorted(brokers)))}")
    found = describe_features(cluster, node_id)
    for each in found.features:
        shown = level_name if each.name == "metadata.version" else str
        print(
            f"Feature: {each.name:<42}SupportedMinVersion: {shown(each.lowest):<17}"
            f"SupportedMaxVersion: {shown(each.highest):<17}"
            f"FinalizedVersionLevel: {shown(each.finalized):<17}"
            f"Epoch: {'-' if found.epoch is None else found.epoch}"
        )


def _updates(given: Any) -> dict[str, int]:
    """The levels that were asked for. ToolError."""
    release = getattr(given, "release_version", None)
    if given.command == "disable":
        wanted = dict.fromkeys(given.feature, 0)
        if not wanted:
            raise ToolError("You must specify at least one feature to disable.")
        return wanted
    if release is not None:
        if given.feature or given.metadata:
            raise ToolError("Can not specify `release-version` with other feature flags.")
        return {name: level for name, level in features_of(release).items() if level}
    wanted = dict(parse_level(each) for each in given.feature)
    if len(wanted) < len(given.feature):
        raise ToolError("Feature was specified more than once.")
    if given.metadata:
        wanted["metadata.version"] = features_of(given.metadata)["metadata.version"]
    if not wanted:
        raise ToolError(f"You must specify at least one feature to {given.command}")
    return wanted


def parse_level(text: str) -> tuple[str, int]:
    """Split NAME=LEVEL. ToolError."""
    name, equals, level = text.partition("=")
    if not equals:
        raise ToolError(f"Can't parse feature=level string {text}: equals sign not found.")
    if re.fullmatch("[+-]?[0-9]{1,5}", level) and -(2**15) <= int(level) < 2**15:
        return name.strip(), int(level)
    raise ToolError(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")


def _update(cluster: Cluster, given: Any, updates: Mapping[str, int]) -> int:
    kind = UPGRADE if given.command == "upgrade" else SAFE_DOWNGRADE
    if getattr(given, "unsafe", False):
        kind = UNSAFE_DOWNGRADE
    lowest = min(updates.values())
    if kind == UPGRADE and lowest < 1:
        raise ToolError(
            "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided "
            f"maxVersionLevel:{lowest} is < 1."
        )
    refused = update_features(cluster, updates, kind, validate_only=given.dry_run)
    for name, level in sorted(updates.items()):
        target = f"{name}" if given.command == "disable" else f"{name} to {level}"
        if name in refused:
            how = "Can not" if given.dry_run else "Could not"
            print(f"{how} {given.command} {target}. {refused[name]}")
        elif given.command == "disable":
            print(f"{name} {'can be' if given.dry_run else 'was'} disabled.")
        else:
            print(f"{name} {'can be' if given.dry_run else 'was'} {given.command}d to {level}.")
    if refused:
        print(f"{len(refused)} out of {len(updates)} operation(s) failed.", file=sys.stderr)
        return FAILED
    return 0


def print_mapping(release: str | None) -> int:
    """Print the features of a release of Kafka (None: the newest stable one)."""
    if release is not None and release not in known_versions():
        raise ToolError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: "
            f"{', '.join(each for each in known_versions() if '-IV' in each)}"
        )
    levels = features_of(release)
    name = release or "4.3-IV0"
    print(f"metadata.version={levels['metadata.version']} ({name})")
    for feature, level in levels.items():
        if feature != "metadata.version":
            print(f"{feature}={level}")
    return 0


def print_dependencies(features: Sequence[str]) -> int:
    """Print what levels of features need."""
    for each in features:
        name, level = parse_level(each)
        if name not in KNOWN_FEATURES:
            raise ToolError(f"Unknown feature: {name}")
        if not 0 <= level <= KNOWN_FEATURES[name]:
            raise ToolError(
                f"Feature level {level} is not known for {name}: it has 0 to {KNOWN_FEATURES[name]}"
            )
        needs = DEPENDENCIES.get((name, level))
        print(f"{name}={level} requires:\n    {needs}" if needs else f"{name}={level} has no dependencies.")
    return 0
