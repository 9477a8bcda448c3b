"""Records of one request that have ids, and are answered together: which were written, and which not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from moldau.client.admin.problem import KafkaProblem
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.producing import Outcome
from moldau.services.rest.v3 import fields
from moldau.services.rest.v3.call import Call
from moldau.services.rest.v3.errors import BATCH_REFUSED, http_problem
from moldau.services.rest.v3.operations import Right, operation
from moldau.services.rest.v3.produced_record import ProducedRecord, read_record, report

ENTRIES_MAX = 1_000
"""Confluent's proxy takes fewer; whoever keeps to its limit keeps to this one."""
_SLICE_RECORDS = 100
_ID = re.compile(r"[0-9a-zA-Z_-]{1,80}")


@operation(
    "POST",
    "/clusters/{cluster_id}/topics/{topic_name}/records:batch",
    "produceRecordsBatch",
    "Write several records with ids; 207 tells of each",
    tag="Records (v3)",
    right=Right("write", "topic", "topic_name"),
    answers={207: "ProduceBatchResponse"},
    body="ProduceBatchRequest",
)
async def produce_batch(call: Call) -> Response:
    topic = call.path["topic_name"]
    entries = _entries(await call.body())
    may_write = partial(call.may, "write", "subject")
    records: dict[str, ProducedRecord] = {}
    problems: dict[str, HttpProblem] = {}
    for count, (name, entry) in enumerate(entries.items()):
        if count % _SLICE_RECORDS == _SLICE_RECORDS - 1:
            await asyncio.sleep(0)
        try:
            record = await read_record(call.service.schemas, topic, entry, may_write)
            key, value = record.outgoing.key or b"", record.outgoing.value or b""
            call.service.produce_limits.check(len(key) + len(value))
            records[name] = record
        except HttpProblem as wrong:
            problems[name] = wrong
    outcomes = dict(zip(records, await _written(call, topic, list(records.values())), strict=True))
    successes, failures = [], []
    for name in entries:
        outcome = problems.get(name) or outcomes[name]
        if isinstance(outcome, KafkaProblem):
            outcome = http_problem(outcome)
        if isinstance(outcome, HttpProblem):
            failures.append({"id": name, "error_code": outcome.error_code, "message": outcome.message})
        else:
            successes.append({"id": name, **report(call.cluster_id, topic, records[name], outcome)})
    return call.answer({"successes": successes, "failures": failures}, 207)


async def _written(call: Call, topic: str, records: Sequence[ProducedRecord]) -> list[Outcome]:
    try:
        return await call.service.producers.produce(topic, [each.outgoing for each in records])
    except KafkaProblem as problem:
        return [problem] * len(records)


def _entries(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The records by id. HttpProblem 42208."""
    given = fields.objects(body, "entries")
    if not given:
        raise HttpProblem(BATCH_REFUSED, "Empty batch: entries has no record.")
    if len(given) > ENTRIES_MAX:
        raise HttpProblem(
            BATCH_REFUSED, f"Too many entries in batch: {len(given)}, of at most {ENTRIES_MAX}."
        )
    found: dict[str, Mapping[str, Any]] = {}
    for each in given:
        name = each.get("id")
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise HttpProblem(
                BATCH_REFUSED,
                "Batch entry identifier is not valid: 1 to 80 letters, digits, - and _ in quotes.",
            )
        if name in found:
            raise HttpProblem(BATCH_REFUSED, f"Batch entry IDs are not distinct: {name}.")
        found[name] = each
    return found
