"""Changes of topics: create, clone, settings, more partitions, purge, delete, recreate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from moldau.client.admin.configs import TOPIC, Source, alter_configs, describe_configs
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import add_partitions, create_topic, delete_topic
from moldau.services.console.changes.change import Change, Done, Field, Plan, Refused, Target, Values
from moldau.services.console.facts.snapshot import TopicFacts
from moldau.services.http.rights import Kind, Operation

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.services.console.cluster import ClusterAccess

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARTITIONS_MAX = 10_000
_READERS_NAMED = 5
_WAIT_CREATED = 8


def topic_link(topic: str, page: str = "messages") -> str:
    """The path of a topic's page."""
    return f"/topics/{quote(topic, safe='')}/{page}"


def settings_text(settings: Mapping[str, str | None]) -> str:
    """One NAME=VALUE a line."""
    return "\n".join(f"{name}={value}" for name, value in settings.items() if value is not None)


def parse_settings(text: str) -> dict[str, str]:
    """The settings of such lines. Refused."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise Refused(f"{line.strip()[:100]!r} is no setting: write NAME=VALUE, one a line.", "settings")
        found[name.strip()] = value.strip()
    return found


_SETTINGS = Field(
    "settings",
    "Settings",
    "area",
    "One NAME=VALUE a line, such as retention.ms=86400000. Empty: the defaults.",
)


class TopicChanges:
    """The changes, with the cluster that they are made in."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    def all(self) -> list[Change]:
        """The table of them."""
        at = "/topics/{topic}"
        new = (
            Field("name", "Name", help="Letters, digits, . _ - ; at most 249.", required=True),
            Field("partitions", "Partitions", "number", "How many; empty: the brokers' default."),
            Field(
                "replication", "Copies", "number", "Replicas of each partition; empty: the brokers' default."
            ),
            _SETTINGS,
        )
        return [
            Change(
                "create-topic",
                "/topics/create",
                "Create a topic",
                "Create a topic.",
                Operation.WRITE,
                Kind.TOPIC,
                "name",
                self._plan_create,
                self._create,
                new,
                back="/topics",
            ),
            Change(
                "clone-topic",
                f"{at}/clone",
                "Clone a topic",
                "Create an empty topic with the partitions, copies and settings of this one.",
                Operation.WRITE,
                Kind.TOPIC,
                "name",
                self._plan_create,
                self._create,
                new,
                self._prefill_clone,
                back=f"{at}/settings",
            ),
            Change(
                "change-topic",
                f"{at}/change",
                "Change settings",
                "Set or reset settings of a topic: what the text no longer has gets its default back.",
                Operation.CONFIGURE,
                Kind.TOPIC,
                "topic",
                self._plan_settings,
                self._change_settings,
                (_SETTINGS,),
                self._prefill_settings,
                back=f"{at}/settings",
            ),
            Change(
                "add-partitions",
                f"{at}/add-partitions",
                "Add partitions",
                "Enlarge a topic; it can never be made smaller.",
                Operation.CONFIGURE,
                Kind.TOPIC,
                "topic",
                self._plan_partitions,
                self._add_partitions,
                (Field("partitions", "Partitions in all", "number", required=True),),
                self._prefill_partitions,
                back=f"{at}/partitions",
            ),
            Change(
                "purge-topic",
                f"{at}/purge",
                "Purge a topic",
                "Delete all records of a topic; the topic stays.",
                Operation.DELETE,
                Kind.TOPIC,
                "topic",
                self._plan_purge,
                self._purge,
                back=f"{at}/settings",
            ),
            Change(
                "recreate-topic",
                f"{at}/recreate",
                "Recreate a topic",
                "Delete a topic, and create it again with the same partitions, copies and settings.",
                Operation.DELETE,
                Kind.TOPIC,
                "topic",
                self._plan_recreate,
                self._recreate,
                back=f"{at}/settings",
            ),
            Change(
                "delete-topic",
                f"{at}/delete",
                "Delete a topic",
                "Delete a topic with its records.",
                Operation.DELETE,
                Kind.TOPIC,
                "topic",
                self._plan_delete,
                self._delete,
                back=f"{at}/settings",
            ),
        ]

    # -- create, clone ----------------------------------------------------------------------------------

    async def _plan_create(self, target: Target, values: Values) -> Plan:
        name = values.get("name", "").strip()
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise Refused("A topic's name has letters, digits, . _ - and at most 249 of them.", "name")
        partitions = _count(values, "partitions", _PARTITIONS_MAX)
        replication = _count(values, "replication", 1000)
        settings = parse_settings(values.get("settings", ""))
        made = await self._access.call(
            lambda cluster: create_topic(
                cluster,
                name,
                partitions=partitions or -1,
                replication_factor=replication or -1,
                configs=settings,
                validate_only=True,
            )
        )
        shown = made.partitions if made.partitions > 0 else partitions or "the brokers' default of"
        copies = made.replication_factor if made.replication_factor > 0 else replication
        lines = [
            f"Topic {name} is created with {shown} partition{'' if shown == 1 else 's'}"
            + (f", {copies} cop{'y' if copies == 1 else 'ies'} of each." if copies else ".")
        ]
        lines += [f"{key} = {value}" for key, value in sorted(settings.items())]
        warnings = []
        collision = name.replace(".", "_")
        snapshot = await self._access.facts.snapshot()
        if any(other != name and other.replace(".", "_") == collision for other in snapshot.topics):
            warnings.append("Another topic differs only in . and _: their metrics have the same name.")
        if copies == 1:
            warnings.append(
                "With one copy the topic cannot be used while its broker is down, and is lost with its disk."
            )
        work = {"name": name, "partitions": partitions, "replication": replication, "settings": settings}
        return Plan(f"Create {name}", lines, "Create topic", work, warnings)

    async def _create(self, target: Target, plan: Plan) -> Done:
        work = plan.work
        await self._access.call(
            lambda cluster: create_topic(
                cluster,
                work["name"],
                partitions=work["partitions"] or -1,
                replication_factor=work["replication"] or -1,
                configs=work["settings"],
            )
        )
        await self._access.facts.refreshed()
        return Done(f"Topic {work['name']} was created.", topic_link(work["name"]))

    async def _prefill_clone(self, target: Target) -> Values:
        topic = await self._topic(target)
        settings = await self._set_settings(topic.name)
        return {
            "name": f"{topic.name}-copy"[:249],
            "partitions": str(len(topic.partitions)),
            "replication": str(topic.replication_factor),
            "settings": settings_text(settings),
        }

    # -- settings ---------------------------------------------------------------------------------------

    async def _prefill_settings(self, target: Target) -> Values:
        return {"settings": settings_text(await self._set_settings(target["topic"]))}

    async def _set_settings(self, topic: str) -> dict[str, str]:
        """What was set for the topic itself."""
        found = await self._access.call(lambda cluster: describe_configs(cluster, TOPIC, [topic]))
        return {
            each.name: each.value or ""
            for each in found.get(topic, ())
            if each.source == Source.DYNAMIC_TOPIC_CONFIG
        }

    async def _plan_settings(self, target: Target, values: Values) -> Plan:
        name = target["topic"]
        await self._topic(target)
        wanted = parse_settings(values.get("settings", ""))
        found = await self._access.call(lambda cluster: describe_configs(cluster, TOPIC, [name]))
        now = {each.name: each for each in found.get(name, ())}
        is_set = {key for key, each in now.items() if each.source == Source.DYNAMIC_TOPIC_CONFIG}
        table = []
        changes: dict[str, tuple[bool, str | None]] = {}
        for key, value in sorted(wanted.items()):
            before = now[key].value if key in now else None
            if key not in is_set or before != value:
                changes[key] = (True, value)
                table.append((key, before, value))
        for key in sorted(is_set - wanted.keys()):
            changes[key] = (False, None)
            default = next(
                (other.value for other in now[key].synonyms if other.source != Source.DYNAMIC_TOPIC_CONFIG),
                "the default",
            )
            table.append((key, now[key].value, f"{default} (reset)"))
        if not changes:
            raise Refused("Nothing would change: these are the topic's settings already.", "settings")
        failed = await self._access.call(
            lambda cluster: alter_configs(cluster, TOPIC, {name: changes}, validate_only=True)
        )
        if name in failed:
            raise Refused(failed[name].words, "settings")
        lines = [
            f"{_counted(len(changes), 'setting')} of {name} will be different; records and readers stay."
        ]
        warnings = []
        if any(key in changes for key in ("retention.ms", "retention.bytes", "cleanup.policy", "segment.ms")):
            warnings.append(
                "Shorter retention or another cleanup policy may delete records that are there now."
            )
        work = {key: [is_new, value] for key, (is_new, value) in changes.items()}
        return Plan(
            f"Change settings of {name}",
            lines,
            "Change settings",
            work,
            warnings,
            ("Setting", "Now", "Then"),
            table,
        )

    async def _change_settings(self, target: Target, plan: Plan) -> Done:
        name = target["topic"]
        changes = {key: (bool(is_new), value) for key, (is_new, value) in plan.work.items()}
        failed = await self._access.call(lambda cluster: alter_configs(cluster, TOPIC, {name: changes}))
        if name in failed:
            raise failed[name]
        return Done(f"The settings of {name} were changed.", topic_link(name, "settings"))

    # -- partitions -------------------------------------------------------------------------------------

    async def _prefill_partitions(self, target: Target) -> Values:
        return {"partitions": str(len((await self._topic(target)).partitions) + 1)}

    async def _plan_partitions(self, target: Target, values: Values) -> Plan:
        topic = await self._topic(target)
        count = _count(values, "partitions", _PARTITIONS_MAX)
        now = len(topic.partitions)
        if count is None or count <= now:
            raise Refused(f"{topic.name} has {now} partitions: name a larger number.", "partitions")
        lines = [f"{topic.name} gets {_counted(count - now, 'more partition')}: {count} instead of {now}."]
        warnings = [
            "Records with a key may go to another partition than those before them: their order is kept "
            "only within a partition.",
            "A topic can never have fewer partitions again, only be recreated.",
        ]
        return Plan(f"Add partitions to {topic.name}", lines, "Add partitions", {"count": count}, warnings)

    async def _add_partitions(self, target: Target, plan: Plan) -> Done:
        name = target["topic"]
        await self._access.call(lambda cluster: add_partitions(cluster, name, plan.work["count"]))
        await self._access.facts.refreshed()
        return Done(f"{name} has {plan.work['count']} partitions.", topic_link(name, "partitions"))

    # -- purge, delete, recreate ------------------------------------------------------------------------

    async def _plan_purge(self, target: Target, values: Values) -> Plan:
        topic = await self._topic(target)
        settings = await self._access.call(
            lambda cluster: describe_configs(cluster, TOPIC, [topic.name], keys=["cleanup.policy"])
        )
        policy = next((each.value or "" for each in settings.get(topic.name, ())), "")
        if "delete" not in policy:
            raise Refused(
                f"{topic.name} is compacted (cleanup.policy={policy}): brokers delete no records of such "
                "a topic. "
                "Recreate it instead."
            )
        lines = [
            f"{_records(topic)} of {topic.name} are deleted, in {len(topic.partitions)} partitions. "
            "Records that come from now on stay."
        ]
        return Plan(
            f"Purge {topic.name}",
            lines,
            "Delete all records",
            {},
            [*self._readers(topic.name), "Deleted records cannot be brought back."],
            dangerous=True,
        )

    async def _purge(self, target: Target, plan: Plan) -> Done:
        topic = await self._topic(target)
        await self._access.call(lambda cluster: _delete_to_end(cluster, topic))
        await self._access.facts.refreshed()
        return Done(f"The records of {topic.name} were deleted.", topic_link(topic.name))

    async def _plan_delete(self, target: Target, values: Values) -> Plan:
        topic = await self._topic(target)
        lines = [
            f"Topic {topic.name} with {len(topic.partitions)} partitions and {_records(topic)} is deleted."
        ]
        warnings = [*self._readers(topic.name), "Records of a deleted topic cannot be brought back."]
        if topic.is_internal:
            warnings.insert(
                0, "This is a topic of the cluster's own: groups or transactions lose what they know."
            )
        return Plan(
            f"Delete {topic.name}",
            lines,
            "Delete topic",
            {"name": topic.name},
            warnings,
            dangerous=True,
        )

    async def _delete(self, target: Target, plan: Plan) -> Done:
        name = target["topic"]
        await self._access.call(lambda cluster: delete_topic(cluster, name))
        await self._access.facts.refreshed()
        return Done(f"Topic {name} was deleted.", "/topics")

    async def _plan_recreate(self, target: Target, values: Values) -> Plan:
        topic = await self._topic(target)
        if topic.is_internal:
            raise Refused(f"{topic.name} is a topic of the cluster's own, and is not recreated from here.")
        settings = await self._set_settings(topic.name)
        work = {
            "partitions": len(topic.partitions),
            "replication": topic.replication_factor,
            "settings": settings,
        }
        await self._access.call(lambda cluster: _check_creatable(cluster, topic.name, work))
        lines = [
            f"Topic {topic.name} is deleted, with {_records(topic)}.",
            f"It is created again at once, with {len(topic.partitions)} partitions, "
            f"{topic.replication_factor} copies and "
            f"{len(settings)} setting{'' if len(settings) == 1 else 's'} of its own.",
        ]
        warnings = [
            *self._readers(topic.name),
            "Records cannot be brought back. Groups keep offsets that mean nothing in the new topic: "
            "reset them.",
        ]
        return Plan(
            f"Recreate {topic.name}",
            lines,
            "Delete and create again",
            work,
            warnings,
            dangerous=True,
        )

    async def _recreate(self, target: Target, plan: Plan) -> Done:
        name, work = target["topic"], plan.work
        await self._access.call(lambda cluster: delete_topic(cluster, name))
        try:
            await self._access.call(lambda cluster: _create_when_gone(cluster, name, work))
        except KafkaProblem as problem:
            had = "".join(f", {key}={value}" for key, value in work["settings"].items())
            raise KafkaProblem(
                problem.error_code,
                f"{name} was deleted, but not created again: {problem.words} Create it with "
                f"{work['partitions']} partitions, {work['replication']} copies{had}.",
            ) from None
        await self._access.facts.refreshed()
        return Done(f"Topic {name} was created anew.", topic_link(name))

    # -- shared -----------------------------------------------------------------------------------------

    async def _topic(self, target: Target) -> TopicFacts:
        return await self._access.topic(target["topic"])

    def _readers(self, topic: str) -> list[str]:
        snapshot = self._access.facts.known
        groups = snapshot.readers.get(topic, ()) if snapshot is not None else ()
        active = [
            each for each in groups if snapshot is not None and (snapshot.groups[each].members or 0) > 0
        ]
        if not active:
            return []
        named = ", ".join(active[:_READERS_NAMED])
        more = f" and {len(active) - _READERS_NAMED} more" if len(active) > _READERS_NAMED else ""
        return [f"Groups with members read it now: {named}{more}."]


def _records(topic: TopicFacts) -> str:
    if topic.records is None:
        return "all its records"
    return f"about {topic.records:,} record{'' if topic.records == 1 else 's'}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _count(values: Values, name: str, most: int) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:12]) <= most:
        raise Refused(f"{text[:20]} is no number from 1 to {most:,}.", name)
    return int(text)


def _delete_to_end(cluster: Cluster, topic: TopicFacts) -> None:
    from moldau.client.admin.records import delete_records
    from moldau.client.offsets import LATEST

    places = [(topic.name, each.partition_id) for each in topic.partitions]
    ends = cluster.offsets(dict.fromkeys(places, LATEST))
    delete_records(cluster, ends)


def _check_creatable(cluster: Cluster, name: str, work: Mapping[str, Any]) -> None:
    """Refused: brokers would not create such a topic now, so it must not be deleted first. They are asked for
    another name, since this one is taken."""
    import secrets

    from moldau.common.protocol.errors import ErrorCode

    other = f"{name[:220]}-{secrets.token_hex(8)}"
    try:
        create_topic(
            cluster,
            other,
            partitions=work["partitions"],
            replication_factor=work["replication"],
            configs=work["settings"],
            validate_only=True,
        )
    except KafkaProblem as problem:
        if problem.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return  # rights for this name may be there all the same
        raise Refused(
            f"{name} could not be created again at the moment, so it is not deleted: {problem.words}"
        ) from None


def _create_when_gone(cluster: Cluster, name: str, work: Mapping[str, Any]) -> None:
    """Create a topic whose deletion was taken, but may not be known everywhere yet."""
    import time

    from moldau.common.protocol.errors import ErrorCode

    ends = time.monotonic() + _WAIT_CREATED
    while True:
        try:
            create_topic(
                cluster,
                name,
                partitions=work["partitions"],
                replication_factor=work["replication"],
                configs=work["settings"],
            )
        except KafkaProblem as problem:
            if problem.error_code != ErrorCode.TOPIC_ALREADY_EXISTS or time.monotonic() > ends:
                raise
            time.sleep(0.1)
        else:
            return
