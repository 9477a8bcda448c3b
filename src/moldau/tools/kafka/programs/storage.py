"""kafka-storage: random-uuid, format, info, version-mapping, feature-dependencies.

Moldau needs no formatting: a broker makes what it lacks. `format` decides the cluster's id, by writing
meta.properties into each folder of log.dirs; a broker that starts there takes it. Options that set up
Kafka's own quorum are understood, and have nothing to set up.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from moldau.common.core.ids import uuid_to_text
from moldau.tools.kafka.java.properties import read_properties
from moldau.tools.kafka.lines.subcommands import Subcommands
from moldau.tools.kafka.problems import FAILED, ToolError

META = "meta.properties"
DEFAULT_FOLDER = "/tmp/kafka-logs"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_+/=-]{1,100}")  # a UUID in Base64, in either alphabet, or a name


def main(words: Sequence[str]) -> int:
    """Run one command. Returns the exit code."""
    given = _parser().parse_args(words)
    if given.command == "random-uuid":
        print(random_id())
        return 0
    if given.command in ("version-mapping", "feature-dependencies"):
        from moldau.tools.kafka.programs import features

        if given.command == "version-mapping":
            return features.print_mapping(given.release_version)
        return features.print_dependencies(given.feature)
    settings = _settings(given.config)
    folders = log_folders(settings)
    if given.command == "info":
        return info(folders)
    _check_levels(given.release_version, given.feature or [])
    users = given.add_scram or []
    if users:
        from moldau.tools.commands.serve.first_users import first_users
        from moldau.tools.kafka.queries.scram_format import scram_users

        content = first_users(scram_users(users))  # before anything is written
    fresh = any(not (folder / META).exists() for folder in folders)
    code = format_(folders, given.cluster_id, _node_id(settings), ignore_formatted=given.ignore_formatted)
    if users and fresh:
        _write_users(Path(settings.get("metadata.log.dir") or folders[0]), content)
    return code


def _write_users(folder: Path, content: bytes) -> None:
    from moldau.tools.commands.serve.first_users import write_first_users

    try:
        write_first_users(folder, content)
    except OSError as problem:
        raise ToolError(f"the users cannot be written in {folder}: {problem.strerror}") from None


def _parser() -> Subcommands:
    parser = Subcommands(
        prog="kafka-storage", description="Prepares the log directories of a broker, and shows them."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("info", help="Show the log directories of a broker.")
    one.add_argument("--config", "-c", required=True, help="The broker's settings.")
    one = commands.add_parser("format", help="Give the log directories of a broker a cluster id.")
    one.add_argument("--config", "-c", required=True, help="The broker's settings.")
    one.add_argument("--cluster-id", "-t", required=True, help="The cluster's id: see random-uuid.")
    one.add_argument(
        "--add-scram",
        "-S",
        action="append",
        help="A user of the new cluster: SCRAM-SHA-256=[name=alice,password=...]; may be repeated.",
    )
    one.add_argument("--ignore-formatted", "-g", action="store_true", help="Skip what is formatted.")
    one.add_argument("--release-version", "-r", help="Without effect.")
    one.add_argument("--feature", "-f", action="append", help="Without effect: kafka-features sets levels.")
    which = one.add_mutually_exclusive_group()
    which.add_argument("--standalone", "-s", action="store_true", help="Not needed.")
    which.add_argument("--no-initial-controllers", "-N", action="store_true", help="Not needed.")
    which.add_argument("--initial-controllers", "-I", help="Not needed.")
    one = commands.add_parser("version-mapping", help="The features of a release of Kafka.")
    one.add_argument("--release-version", "-r", help="The release, such as 4.0.")
    one = commands.add_parser("feature-dependencies", help="What a feature's level needs.")
    one.add_argument("--feature", "-f", action="append", required=True, help="NAME=LEVEL; may be repeated.")
    commands.add_parser("random-uuid", help="Print a random id.")
    return parser


def _check_levels(release: str | None, features: Sequence[str]) -> None:
    """Refuse levels that Kafka's tool refuses, and say that the others change nothing. ToolError."""
    from moldau.tools.kafka.programs.features import parse_level
    from moldau.tools.kafka.releases import KNOWN_FEATURES, features_of

    if release is not None:
        features_of(release)
    for name, level in map(parse_level, features):
        if name == "metadata.version":
            continue
        if name not in KNOWN_FEATURES:
            listed = ", ".join(sorted(KNOWN_FEATURES))
            raise ToolError(f"Unsupported feature: {name}. Supported features are: {listed}")
        if not 0 <= level <= KNOWN_FEATURES[name]:
            raise ToolError(f"No feature:{name} with feature level {level}")
    if release is not None or features:
        print("--release-version and --feature have no effect: kafka-features sets levels", file=sys.stderr)


def random_id() -> str:
    """A random id of 22 characters that does not begin with a dash, so that it may follow an option."""
    while True:
        text = uuid_to_text(os.urandom(16))
        if not text.startswith("-"):
            return text


def _settings(file: str) -> dict[str, str]:
    if not Path(file).is_file():
        raise ToolError(f"{file} is not there: name the broker's settings with --config")
    return read_properties(file)


def log_folders(settings: Mapping[str, str]) -> list[Path]:
    """The log directories of a broker's settings."""
    text = settings.get("log.dirs") or settings.get("log.dir") or DEFAULT_FOLDER
    return [Path(each.strip()) for each in text.split(",") if each.strip()]


def _node_id(settings: Mapping[str, str]) -> str:
    return settings.get("node.id") or settings.get("broker.id") or "1"


def info(folders: Sequence[Path]) -> int:
    """Print what is found in the folders; 1 if something is wrong with them."""
    found, problems, metadata = [], [], []
    for folder in sorted(folders):
        if not folder.is_dir():
            problems.append(f"{folder} {'is not a directory' if folder.exists() else 'does not exist'}")
        elif not (folder / META).is_file():
            found.append(folder)
            problems.append(f"{folder} is not formatted.")
        else:
            found.append(folder)
            metadata.append(dict(sorted(read_properties(str(folder / META)).items())))
    if found:
        print(f"Found log director{'y' if len(found) == 1 else 'ies'}:")
        print("".join(f"  {folder}\n" for folder in found))
    if metadata:
        shown = ", ".join(f"{name}={value}" for name, value in metadata[0].items())
        print(f"Found metadata: {{{shown}}}\n")
    ids = {each.get("cluster.id") for each in metadata}
    if len(ids) > 1:
        problems.append(
            f"The log directories belong to different clusters: {', '.join(sorted(map(str, ids)))}"
        )
    if problems:
        print(f"Found problem{'' if len(problems) == 1 else 's'}:")
        print("".join(f"  {each}\n" for each in problems))
        return FAILED
    return 0


def format_(folders: Sequence[Path], cluster_id: str, node_id: str, *, ignore_formatted: bool) -> int:
    """Give folders a cluster id. ToolError if one has another, or is formatted and that is not ignored."""
    if not _CLUSTER_ID.fullmatch(cluster_id):
        raise ToolError(f"{cluster_id!r} cannot be a cluster id: kafka-storage random-uuid makes one")
    ready = []
    for folder in folders:
        file = folder / META
        if not file.exists():
            continue
        stored = read_properties(str(file)).get("cluster.id", "")
        if stored != cluster_id:
            raise ToolError(f"Invalid cluster.id in: {file}. Expected {cluster_id}, but read {stored}")
        if not ignore_formatted:
            raise ToolError(
                f"Log directory {folder} is already formatted. Use --ignore-formatted to ignore "
                "this directory "
                "and format the others."
            )
        ready.append(folder)
    if len(ready) == len(folders):
        print("All of the log directories are already formatted.")
        return 0
    for folder in folders:
        if folder not in ready:
            _write(folder, cluster_id, node_id)
            print(f"Formatting {folder} with cluster.id {cluster_id}, node.id {node_id}.")
    sys.stdout.flush()
    return 0


def _write(folder: Path, cluster_id: str, node_id: str) -> None:
    content = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={random_id()}\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{META}.tmp"
        with partial.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(folder / META)
    except OSError as problem:
        raise ToolError(f"{folder} cannot be formatted: {problem.strerror}") from None
