"""Write one record to a topic, as its key, value and headers are typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from moldau.services.console.changes.change import Change, Done, Field, Plan, Refused, Target, Values
from moldau.services.console.changes.topics import topic_link
from moldau.services.http.rights import Kind, Operation
from moldau.services.kafka.producing import Delivered, OutgoingRecord, Producers

if TYPE_CHECKING:
    from moldau.services.console.cluster import ClusterAccess

FORMATS = (("string", "Text"), ("json", "JSON"), ("hex", "Bytes (hexadecimal)"), ("null", "Nothing (null)"))
_HEADERS_MAX = 100


class ProduceChange:
    """The change, with the producer that it is made by."""

    def __init__(self, access: ClusterAccess, producers: Producers) -> None:
        self._access = access
        self._producers = producers

    def all(self) -> list[Change]:
        """One."""
        return [
            Change(
                "produce-record",
                "/topics/{topic}/produce",
                "Produce a record",
                "Write one record to a topic.",
                Operation.WRITE,
                Kind.TOPIC,
                "topic",
                self._plan,
                self._produce,
                (
                    Field("key_format", "Key is", "choice", choices=FORMATS, default="string"),
                    Field("key", "Key", help="Records with the same key keep their order."),
                    Field("value_format", "Value is", "choice", choices=FORMATS, default="string"),
                    Field("value", "Value", "area"),
                    Field("headers", "Headers", "area", "One NAME: VALUE a line."),
                    Field("partition", "Partition", "number", "Empty: by the key."),
                ),
                back="/topics/{topic}/messages",
            )
        ]

    async def _plan(self, target: Target, values: Values) -> Plan:
        topic = await self._access.topic(target["topic"])
        key = coded(values.get("key", ""), values.get("key_format", "string") or "string", "key")
        if values.get("key", "") == "" and values.get("key_format", "string") in ("", "string"):
            key = None
        value = coded(values.get("value", ""), values.get("value_format", "string") or "string", "value")
        headers = parse_headers(values.get("headers", ""))
        text = values.get("partition", "").strip()
        partition = None
        if text:
            if not text.isdigit() or int(text[:9]) not in {each.partition_id for each in topic.partitions}:
                raise Refused(f"{topic.name} has no partition {text[:20]}.", "partition")
            partition = int(text)
        where = f"partition {partition}" if partition is not None else "the partition that its key chooses"
        if partition is None and key is None:
            where = "some partition, as it has no key"
        said = "no key" if key is None else f"a key of {len(key):,} bytes"
        body = "no value (a tombstone)" if value is None else f"a value of {len(value):,} bytes"
        lines = [
            f"One record with {said}, {body} and {len(headers)} header{'' if len(headers) == 1 else 's'} is "
            f"written to {where} of {topic.name}."
        ]
        warnings = ["A record that is written cannot be taken back: every group of the topic reads it."]
        if topic.is_internal:
            warnings.insert(0, "This is a topic of the cluster's own: a wrong record in it does damage.")
        work = {
            "key": None if key is None else key.hex(),
            "value": None if value is None else value.hex(),
            "headers": headers,
            "partition": partition,
        }
        return Plan(f"Produce to {topic.name}", lines, "Write the record", work, warnings)

    async def _produce(self, target: Target, plan: Plan) -> Done:
        work = plan.work
        record = OutgoingRecord(
            None if work["key"] is None else bytes.fromhex(work["key"]),
            None if work["value"] is None else bytes.fromhex(work["value"]),
            work["partition"],
            None,
            [(name, value.encode()) for name, value in work["headers"]],
        )
        (outcome,) = await self._producers.produce(target["topic"], [record])
        if not isinstance(outcome, Delivered):
            raise outcome
        await self._access.facts.refreshed()
        link = f"{topic_link(target['topic'])}/{outcome.partition}/{outcome.offset}"
        return Done(f"The record is at offset {outcome.offset} of partition {outcome.partition}.", link)


def coded(text: str, form: str, field: str) -> bytes | None:
    """The bytes of what was typed. Refused."""
    if form == "null":
        return None
    if form == "json":
        try:
            return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).encode()
        except (ValueError, RecursionError) as problem:
            raise Refused(f"This is not JSON: {problem}.", field) from None
    if form == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise Refused("Bytes are written as pairs of 0-9 and a-f.", field) from None
    if form == "string":
        return text.encode("utf-8", "replace")
    raise Refused(f"{form[:20]} is not known.", f"{field}_format")


def parse_headers(text: str) -> list[tuple[str, str]]:
    """Lines of NAME: VALUE. Refused."""
    found = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise Refused(f"{line[:60]!r} is no header: write NAME: VALUE.", "headers")
        found.append((name.strip(), value.strip()))
    if len(found) > _HEADERS_MAX:
        raise Refused(f"There are more than {_HEADERS_MAX} headers.", "headers")
    return found
