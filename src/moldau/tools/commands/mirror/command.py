"""`moldau mirror`: topics that mirror another cluster's, at the same offsets: create, status, pause, resume,
failover, reverse, alter, delete.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from moldau.tools.shared import completion
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    Bootstrap,
    ClientSettings,
    Json,
    Timeout,
)
from moldau.tools.shared.output import note, print_json, print_table

if TYPE_CHECKING:
    from moldau.client.admin.mirrors import TopicOutcome
    from moldau.client.cluster import Cluster

app = typer.Typer(
    no_args_is_help=True,
    help="Mirror topics of another Kafka cluster at the same offsets, and fail over to them.",
    epilog="Try: moldau mirror create berlin --from berlin:9092 --topics orders,clicks   and: moldau mirror "
    "status",
)

LinkName = Annotated[str, typer.Argument(metavar="LINK", help="The link's name.")]
Topics = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC",
        help="Only these; all of the link's without any.",
        autocompletion=completion.topics,
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the link; may be repeated."),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="A property file of the link's settings: how to connect (TLS, SASL), and what follows.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]

_POLL_SECONDS = 0.5


def register(root: typer.Typer) -> None:
    """Add the command to the application."""
    root.add_typer(app, name="mirror")


@app.command()
def create(
    link: LinkName,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="Brokers of the source, separated by commas."),
    ] = None,
    topics: Annotated[
        str | None,
        typer.Option("--topics", metavar="NAMES", help="Names or regular expressions, separated by commas."),
    ] = None,
    config: Config = None,
    setting: Setting = None,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Take topics that are here already for copies, after a comparison."),
    ] = False,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once; what is there is copied meanwhile.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Link to another cluster, and mirror its topics until they are level; may be repeated."""
    from moldau.client.admin.mirrors import alter_mirrors

    settings = _settings(config, setting)
    if from_ is not None:
        settings["bootstrap.servers"] = from_
    if topics is not None:
        settings["topics"] = topics
    for name, option in (("bootstrap.servers", "--from"), ("topics", "--topics")):
        if name not in settings:
            raise UsageError(f"{option} is missing ({name} in a --config file does as well)")
    with _cluster(bootstrap, client_settings, timeout) as cluster:
        outcomes = alter_mirrors(
            cluster, "create", link, settings=dict(settings), adopt=adopt, validate_only=dry_run
        )
        if dry_run:
            names = ", ".join(each.topic for each in outcomes) or "no topic that is there now"
            print(f"The link {link} would mirror {names}.")
            return
        begun = [each.topic for each in outcomes if not each.problem]
        if begun and not no_wait:
            _wait_until_level(cluster, link, begun)
    _tell(outcomes, "is mirrored", f"The link {link} is made; no topic of the source matches yet.")


def _wait_until_level(cluster: Cluster, name: str, topics: Sequence[str]) -> None:
    """Until the topics are level with their source, telling how far they are."""
    from moldau.client.admin.mirrors import describe_links
    from moldau.tools.commands.mirror.status import PULLED, topic_rows

    told = ""
    while True:
        (link,) = describe_links(cluster, [name])
        rows = {row["topic"]: row for row in topic_rows(link)}
        open_topics = [
            topic
            for topic in topics
            if topic in rows
            and rows[topic]["state"] in PULLED
            and (rows[topic]["behind"] != 0 or rows[topic]["state"] == "preparing")
        ]
        if not open_topics:
            return
        left = sum(rows[topic]["behind"] or 0 for topic in open_topics)
        problem = next((rows[topic]["reason"] for topic in open_topics if rows[topic]["reason"]), "")
        text = f"{len(open_topics)} of {len(topics)} topics are not level yet, {left} records behind"
        text += f": {problem}" if problem else ""
        if text != told:
            note(text)
            told = text
        time.sleep(_POLL_SECONDS)


@app.command()
def status(
    link: Annotated[str | None, typer.Argument(metavar="LINK", help="Only this link.")] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="A row for each partition.")] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="What groups have committed, there and here.")
    ] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Say how many seconds a failover would lose now, and which partition holds it up; then the topics."""
    from moldau.client.admin.mirrors import describe_links
    from moldau.tools.commands.mirror import status as show

    with _cluster(bootstrap, client_settings, timeout) as cluster:
        links = describe_links(cluster, None if link is None else [link])
    if as_json:
        print_json([show.as_json(each) for each in links])
        return
    if not links:
        note("no links; moldau mirror create makes one")
    for each in links:
        print(show.summary(each))
        for problem in each.problems:
            print(f"  {problem}")
        if groups:
            print_table(list(show.group_rows(each)), show.GROUP_COLUMNS, empty="no group has committed")
        elif partitions:
            print_table(list(show.partition_rows(each)), show.PARTITION_COLUMNS)
        elif each.topics:
            print_table(list(show.topic_rows(each)), show.TOPIC_COLUMNS)


@app.command()
def pause(
    link: LinkName,
    topics: Topics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Pull nothing more, until resume; the topics stay read-only."""
    _change("pause", link, topics, "is paused", (bootstrap, client_settings, timeout))


@app.command()
def resume(
    link: LinkName,
    topics: Topics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Pull again what was paused, or had a fault that is mended."""
    _change("resume", link, topics, "is mirrored again", (bootstrap, client_settings, timeout))


@app.command()
def failover(
    link: LinkName,
    topics: Topics = None,
    dry_run: DryRun = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until clients may write.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Make the topics writable here: pull no more, abort open transactions, open them for producers."""
    from moldau.client.admin.mirrors import alter_mirrors, describe_links
    from moldau.tools.commands.mirror import costs
    from moldau.tools.commands.mirror.status import GROUP_COLUMNS, group_rows

    with _cluster(bootstrap, client_settings, timeout) as cluster:
        (found,) = describe_links(cluster, [link])
        rows = costs.costs(found, topics)
        if dry_run:
            if as_json:
                print_json({"partitions": rows, "groups": list(group_rows(found))})
            else:
                print(costs.sentence(found, rows))
                print_table(rows, costs.COLUMNS)
                if found.groups:
                    print_table(list(group_rows(found)), GROUP_COLUMNS)
            return
        outcomes = alter_mirrors(cluster, "failover", link, topics)
        begun = [each.topic for each in outcomes if not each.problem]
        if begun and not no_wait:
            _wait_until_over(cluster, link, begun, timeout)
    if rows:
        print(costs.sentence(found, rows))
    _tell(outcomes, "is failed over" if not no_wait else "is being failed over", "Nothing is left to do.")


def _wait_until_over(cluster: Cluster, name: str, topics: Sequence[str], seconds: float) -> None:
    from moldau.client.admin.mirrors import describe_links

    end = time.monotonic() + max(seconds, 60)
    while True:
        (link,) = describe_links(cluster, [name])
        left = [each for each in link.topics if each.name in topics and each.state != "failed-over"]
        if not left:
            return
        if time.monotonic() > end:
            text = ", ".join(
                f"{each.name} (partitions {', '.join(map(str, each.left))})" for each in left[:5]
            )
            raise CommandError(
                f"not writable yet: {text}; their leaders go on by themselves, see `moldau mirror status`"
            )
        time.sleep(0.1)


@app.command()
def reverse(
    link: LinkName,
    topics: Topics = None,
    yes: Annotated[bool, typer.Option("--yes", help="Cut off what the source does not have.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Mirror topics again that were failed over (fail back): what the source does not have is cut off."""
    if not yes:
        raise UsageError(
            "what was written here since the failover, and is not at the source, would be cut off: --yes"
        )
    _change("reverse", link, topics, "is mirrored again", (bootstrap, client_settings, timeout))


@app.command()
def alter(
    link: LinkName,
    config: Config = None,
    setting: Setting = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="NAME", help="Take a setting away.")
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Change settings of a link; what it mirrors already goes on."""
    from moldau.client.admin.mirrors import alter_mirrors

    settings: dict[str, str | None] = {**_settings(config, setting), **dict.fromkeys(remove or ())}
    if not settings:
        raise UsageError("nothing is to be changed: --set, --remove or --config")
    with _cluster(bootstrap, client_settings, timeout) as cluster:
        alter_mirrors(cluster, "alter", link, settings=settings, validate_only=dry_run)
    print(f"The link {link} {'could be changed' if dry_run else 'is changed'}.")


@app.command()
def delete(
    link: LinkName,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC",
            help="Delete these copies and their records; without any: the link.",
            autocompletion=completion.topics,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the records of the copies.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Delete copies that are here, or a link that mirrors nothing any more."""
    if topics and not yes:
        raise UsageError(f"the copies of {', '.join(topics)} would be deleted with all their records: --yes")
    ways = (bootstrap, client_settings, timeout)
    if topics:
        _change("delete", link, topics, "is deleted here", ways)
        return
    from moldau.client.admin.mirrors import alter_mirrors

    with _cluster(*ways) as cluster:
        alter_mirrors(cluster, "delete", link)
    print(f"The link {link} is deleted.")


def _change(
    action: str,
    link: str,
    topics: list[str] | None,
    done: str,
    ways: tuple[str, list[str] | None, float],
) -> None:
    from moldau.client.admin.mirrors import alter_mirrors

    with _cluster(*ways) as cluster:
        outcomes = alter_mirrors(cluster, action, link, topics or None)
    _tell(outcomes, done, f"The link {link} has no topic that this concerns.")


def _tell(outcomes: Sequence[TopicOutcome], done: str, nothing: str) -> None:
    """Each topic's outcome; CommandError if any went wrong."""
    if not outcomes:
        print(nothing)
    for each in outcomes:
        if not each.problem:
            print(f"{each.topic} {done}.")
    problems = [f"{each.topic}: {each.problem}" for each in outcomes if each.problem]
    if problems:
        raise CommandError("\n".join(problems))


def _settings(config: str | None, assignments: list[str] | None) -> dict[str, str]:
    from moldau.tools.shared.options import parse_assignments, read_client_file

    found = {} if config is None else read_client_file(config)
    return {**found, **parse_assignments(assignments or [], "--set")}


@contextmanager
def _cluster(bootstrap: str, client_settings: list[str] | None, timeout: float) -> Iterator[Cluster]:
    """The cluster; who lacks the right is told which one."""
    from moldau.client.admin.problem import KafkaProblem
    from moldau.client.errors import RequestRefused
    from moldau.common.protocol.errors import ErrorCode
    from moldau.tools.shared.connection import Connection

    try:
        yield Connection(bootstrap, client_settings, timeout).cluster()
    except KafkaProblem as problem:
        words = problem.words
        if problem.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            words = "the broker refused: links need ALTER (to see: DESCRIBE) on the cluster"
        raise CommandError(words) from None
    except RequestRefused as problem:
        raise CommandError(f"{problem}: mirrors need Moldau's brokers, of this version or later") from None
