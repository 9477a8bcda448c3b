"""Connect: rows a CPU second of one thread through converters and three transforms, beside Kafka's.

The records are those of `schemas` (nine fields), in batches of 500, as a consumer hands them out. Kafka's
connect-json and connect-transforms come from Maven and run in a JVM that is warm (eight rounds before). Avro
is ours alone: Confluent's converter is in no registry that is asked here.

    chain   ReplaceField (leaves one out, renames one), InsertField (topic, timestamp), Cast (two fields)
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.figures import Figure, Row, Start, Subject, Values
from bench.schemas_data import departures

ROWS = 20_000
BATCH_ROWS = 500
ROUNDS = 5
CHAIN = {
    "transforms": "a,b,c",
    "transforms.a.type": "ReplaceField$Value",
    "transforms.a.exclude": "tail",
    "transforms.a.renames": "dest:destination",
    "transforms.b.type": "InsertField$Value",
    "transforms.b.topic.field": "topic",
    "transforms.b.timestamp.field": "ts",
    "transforms.c.type": "Cast$Value",
    "transforms.c.spec": "distance:int64,id:string",
}


def _best(rows: int, works: Mapping[str, Callable[[], Any]]) -> Values:
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.thread_time()
            work()
            seconds[name].append(time.thread_time() - began)
    return {name: rows / min(taken) for name, taken in seconds.items()}


def _schema() -> Any:
    from moldau.connect.schema import TIMESTAMP, Schema, Type, logical_schema, struct_schema

    text, optional = Schema(Type.STRING), Schema(Type.STRING, True)
    fields = {
        "id": Schema(Type.INT64),
        "carrier": text,
        "origin": text,
        "dest": text,
        "delay": Schema(Type.FLOAT64, True),
        "at": logical_schema(TIMESTAMP),
        "distance": Schema(Type.INT32),
        "cancelled": Schema(Type.BOOLEAN),
        "tail": optional,
    }
    return struct_schema(fields, "Departure")


def _texts() -> tuple[list[bytes], list[bytes]]:
    """The records as Kafka's JSON with schema and without."""
    from moldau.connect import batch_of
    from moldau.connect.converters.json.converter import JsonConverter

    batch = batch_of("t", departures(ROWS), _schema())
    made = []
    for with_schemas in (True, False):
        converter = JsonConverter()
        converter.configure({"schemas.enable": with_schemas}, False)
        made.append(converter.to_payloads("t", batch.value)[0].to_pylist())
    return made[0], made[1]


def _parts(values: list[bytes]) -> list[Any]:
    import pyarrow as pa

    return [pa.array(values[first : first + BATCH_ROWS]) for first in range(0, len(values), BATCH_ROWS)]


def _ours(start: Start) -> Values:
    import pyarrow as pa

    from moldau.connect import Batch
    from moldau.connect.batch import Column
    from moldau.connect.converters.json.converter import JsonConverter
    from moldau.connect.converters.registry.converters import AvroConverter
    from moldau.connect.transforms.building import chain_of

    enveloped, plain = (_parts(each) for each in _texts())
    typed, free, avro = JsonConverter(), JsonConverter(), AvroConverter()
    typed.configure({"schemas.enable": True}, False)
    free.configure({"schemas.enable": False}, False)
    avro.configure({"schema.registry.url": ["http://127.0.0.1:1"]}, False)
    _without_registry(avro)
    columns = [typed.to_columns("t", each)[0][0].column for each in enveloped]
    maps = [free.to_columns("t", each)[0][0].column for each in plain]
    records = [avro.to_payloads("t", each)[0] for each in columns]
    chain = chain_of(CHAIN)

    def batches(values: list[Column]) -> list[Batch]:
        return [
            Batch(
                "t",
                Column(None, [None] * len(each)),
                each,
                pa.array([1_700_000_000_000] * len(each), pa.int64()),
            )
            for each in values
        ]

    with_schema, without = batches(columns), batches(maps)
    works: dict[str, Callable[[], Any]] = {
        "read_schema": lambda: [typed.to_columns("t", each) for each in enveloped],
        "read_plain": lambda: [free.to_columns("t", each) for each in plain],
        "write_schema": lambda: [typed.to_payloads("t", each) for each in columns],
        "write_plain": lambda: [free.to_payloads("t", each) for each in columns],
        "read_avro": lambda: [avro.to_columns("t", each) for each in records],
        "write_avro": lambda: [avro.to_payloads("t", each) for each in columns],
        "chain_schema": lambda: [chain.apply(each) for each in with_schema],
        "chain_plain": lambda: [chain.apply(each) for each in without],
    }
    return _best(ROWS, works)


def _without_registry(converter: Any) -> None:
    """Schemas by id from memory: what is measured is the converter."""
    from moldau.schemas.languages import parse
    from moldau.schemas.registry_client import Registered

    known: dict[Any, Registered] = {}

    def register(subject: str, text: Any, normalize: bool = False) -> Registered:
        if text not in known:
            known[text] = Registered(len(known) + 1, 1, parse(text), subject)
        return known[text]

    converter.client.register = register
    converter.client.by_id = lambda number: next(each.parsed for each in known.values() if each.id == number)


def _kafka(start: Start) -> Values:
    from bench import apache_kafka
    from bench.apache_kafka.connect_oracle import compiled

    missing = apache_kafka.available()
    if missing is not None:
        raise RuntimeError(missing)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, values in zip(("with", "without"), _texts(), strict=True):
            paths.append(str(Path(folder) / name))
            Path(paths[-1]).write_bytes(b"\n".join(values))
        command = ["java", "-Xmx512M", "-cp", compiled("ConnectPace"), "ConnectPace", *paths, str(ROUNDS)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return {name: float(number) for name, number in map(str.split, done.stdout.splitlines())}


FIGURE = Figure(
    "connect-data",
    "Connect: converters and a chain of three transforms, nine fields, one thread",
    None,
    (
        Row("read_schema", "JSON with schemas, read", "rows/s", 0),
        Row("read_plain", "JSON without schemas, read", "rows/s", 0),
        Row("write_schema", "JSON with schemas, written", "rows/s", 0),
        Row("write_plain", "JSON without schemas, written", "rows/s", 0),
        Row("read_avro", "Avro, read", "rows/s", 0),
        Row("write_avro", "Avro, written", "rows/s", 0),
        Row("chain_schema", "three transforms, with schema", "rows/s", 0),
        Row("chain_plain", "three transforms, without schema", "rows/s", 0),
    ),
    note="CPU time, best of five rounds. Written are the records with schema, also where the JSON has none.",
    subjects={
        "moldau": Subject("moldau.connect", _ours),
        "kafka": Subject("Kafka's connect-json, connect-transforms (JVM)", _kafka),
    },
)
