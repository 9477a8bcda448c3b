"""The schema registry over HTTP: registrations and look-ups a second, memory, and the time until it answers.

10,000 subjects with an Avro record of four fields each, registered over 16 connections (one id each; a
transaction takes several), then by one client alone; look-ups by id and by schema; a restart. Registry,
broker and load share the machine's cores; the registry's own CPU is taken as well.
"""

from __future__ import annotations

import json
import time

from bench.brokers import BrokerProcess
from bench.figures import Figure, Row, Start, Subject, Values
from bench.proc import cpu_time, resident_bytes
from bench.registry_load import Call, Registry

SUBJECTS, CONNECTIONS = 10_000, 16
ALONE, LOOK_UPS, LISTS = 300, 10_000, 20


def _schema(number: int) -> bytes:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "created", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    record = {"type": "record", "name": f"Order{number}", "namespace": "com.example.shop", "fields": fields}
    return json.dumps({"schema": json.dumps(record)}).encode()


def _registration(number: int) -> Call:
    return Call("POST", f"/subjects/orders{number}-value/versions", _schema(number))


def _moldau(start: Start) -> Values:
    with start() as broker:
        with Registry(broker.address) as registry:
            values = _first_life(registry)
        return {**values, **_second_life(broker)}


def _first_life(registry: Registry) -> dict[str, float]:
    registry.wait_until_it_writes(Call("POST", "/subjects/first/versions", _schema(999_999)))
    values = {"small_mb": resident_bytes(registry.pid) / 1e6}
    cpu = cpu_time(registry.pid)
    seconds = registry.run([_registration(number) for number in range(SUBJECTS)], CONNECTIONS)
    values["register_per_s"] = SUBJECTS / seconds
    values["register_cpu_us"] = (cpu_time(registry.pid) - cpu).total_s / SUBJECTS * 1e6
    seconds = registry.run([_registration(SUBJECTS + number) for number in range(ALONE)], 1)
    values["register_alone_ms"] = seconds / ALONE * 1000
    by_id = [Call("GET", f"/schemas/ids/{1 + number % SUBJECTS}") for number in range(LOOK_UPS)]
    cpu = cpu_time(registry.pid)
    values["by_id_per_s"] = LOOK_UPS / registry.run(by_id, CONNECTIONS)
    values["by_id_cpu_us"] = (cpu_time(registry.pid) - cpu).total_s / LOOK_UPS * 1e6
    by_schema = [
        Call("POST", f"/subjects/orders{number}-value", _schema(number)) for number in range(SUBJECTS)
    ]
    values["look_up_per_s"] = SUBJECTS / registry.run(by_schema, CONNECTIONS)
    began = time.monotonic()
    for _ in range(LISTS):
        registry.get("/subjects")
    values["list_ms"] = (time.monotonic() - began) / LISTS * 1000
    values["used_mb"] = resident_bytes(registry.pid) / 1e6
    return values


def _second_life(broker: BrokerProcess) -> dict[str, float]:
    with Registry(broker.address) as registry:
        return {
            "ready_s": registry.ready_s,
            "ready_cpu_s": cpu_time(registry.pid).total_s,
            "ready_mb": resident_bytes(registry.pid) / 1e6,
        }


FIGURE = Figure(
    "registry",
    "Schema registry with 10,000 subjects",
    None,
    (
        Row("register_per_s", "registrations a second, 16 connections", "1/s", 0),
        Row("register_cpu_us", "CPU of the registry for each", "µs", 0),
        Row("register_alone_ms", "one client alone, each", "ms", 1),
        Row("by_id_per_s", "look-ups by id a second, 16 connections", "1/s", 0),
        Row("by_id_cpu_us", "CPU of the registry for each", "µs", 0),
        Row("look_up_per_s", "look-ups by schema a second, 16 connections", "1/s", 0),
        Row("list_ms", "GET /subjects, all 10,301", "ms", 0),
        Row("small_mb", "memory with one schema", "MB", 0, "< 60"),
        Row("used_mb", "after all of this", "MB", 0),
        Row("ready_s", "start of the process to the first answer", "s", 2, "< 2"),
        Row("ready_cpu_s", "CPU used until then", "s", 2),
        Row("ready_mb", "memory then", "MB", 0),
    ),
    note="One registry over HTTP on a Moldau broker; the load is Python's, and shares the cores.",
    subjects={"registry": Subject("moldau registry", _moldau)},
)
