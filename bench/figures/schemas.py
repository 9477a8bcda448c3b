"""Rows a second between records with a schema and columns: our kernels, the libraries of each language, and
Spark's own from_avro with the same data.

One thread, no broker. `raw` is what the decoders are compared with: plain bytes from Kafka's record batches
to Arrow. The libraries make Python objects, one record after the other, which is what a program has without
columns. Spark's from_protobuf is missing: its jar is not to be had for this release.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.figures import Figure, Row, Start, Subject, Values
from bench.schemas_data import (
    AVRO,
    EVOLVED,
    JSON,
    PROTOBUF,
    SCHEMA_ID,
    avro_payloads,
    departures,
    json_payloads,
)

_REPEATS = 5
_SPARK_ROWS = 5
"""The file that Spark reads has the records so many times."""
_LIBRARY_ROWS = 50_000


def _best(rows: int, work: Callable[[], Any]) -> float:
    """Rows a second of the best of several."""
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return rows / min(seconds)


def _best_in_turns(rows: int, works: Mapping[str, Callable[[], Any]]) -> Values:
    """Rows a CPU second of this thread for each, the best of several rounds: so what is compared is measured
    while the machine is equally busy.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(_REPEATS):
        for name, work in works.items():
            began = time.thread_time()
            work()
            seconds[name].append(time.thread_time() - began)
    return {name: rows / min(taken) for name, taken in seconds.items()}


def _ours(start: Start) -> Values:
    import pyarrow as pa

    from moldau.schemas.columns import Decoder, Encoder
    from moldau.schemas.languages import parse
    from moldau.schemas.schema import SchemaText, SchemaType
    from moldau.schemas.wire import pack_header

    rows = departures()
    avro, evolved = (parse(SchemaText(SchemaType.AVRO, json.dumps(each))) for each in (AVRO, EVOLVED))
    protobuf = parse(SchemaText(SchemaType.PROTOBUF, PROTOBUF))
    document = parse(SchemaText(SchemaType.JSON, json.dumps(JSON)))
    header = pack_header(SCHEMA_ID)
    values = pa.array([header + each for each in avro_payloads(rows)])
    texts = pa.array([header + each for each in json_payloads(rows)])
    columns, _ = Decoder(avro, lambda schema_id: avro).decode(values)
    numbers = _with_numbers(columns)
    messages = Encoder(protobuf, SCHEMA_ID).encode(numbers)
    works: dict[str, Callable[[], Any]] = {"raw": _raw(values.to_pylist())}
    for name, reader, writer, records in (
        ("avro", avro, avro, values),
        ("evolved", evolved, avro, values),
        ("protobuf", protobuf, protobuf, messages),
        ("json", document, document, texts),
    ):
        decoder = Decoder(reader, lambda schema_id, writer=writer: writer)  # type: ignore[misc]
        works[f"decode_{name}"] = lambda decoder=decoder, records=records: decoder.decode(records)  # type: ignore[misc]
    for name, schema, batch in (
        ("avro", avro, columns),
        ("protobuf", protobuf, numbers),
        ("json", document, numbers),
    ):
        encoder = Encoder(schema, SCHEMA_ID)
        works[f"encode_{name}"] = lambda encoder=encoder, batch=batch: encoder.encode(batch)  # type: ignore[misc]
    return _best_in_turns(len(rows), works)


def _with_numbers(columns: Any) -> Any:
    """The timestamp as a number of milliseconds, as the other languages' schemas have it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [columns.type.field(index).name for index in range(columns.type.num_fields)]
    parts = dict(zip(names, columns.flatten(), strict=True))
    parts["at"] = pc.divide(parts["at"].cast(pa.int64()), 1000)
    return pa.StructArray.from_arrays(list(parts.values()), names=names)


def _raw(values: list[bytes]) -> Callable[[], Any]:
    """Batches of the log to Arrow, as consumers with columns have it."""
    from moldau.client import arrow
    from moldau.common.records.batch import BatchView
    from moldau.common.records.builder import build_batch
    from moldau.common.records.record import Record

    batches = []
    for first in range(0, len(values), 1000):
        records = [
            Record(first + index, 0, None, each) for index, each in enumerate(values[first : first + 1000])
        ]
        batches.append(BatchView(build_batch(records, base_offset=first)))
    return lambda: list(arrow.decode_batches(batches, "t", 0, 0, len(values), include_headers=False))


def _libraries(start: Start) -> Values:
    import fastavro
    from google.protobuf.message_factory import GetMessageClass

    from moldau.schemas.columns.protobuf_types import message_of
    from moldau.schemas.languages import parse
    from moldau.schemas.schema import SchemaText, SchemaType

    rows = departures(_LIBRARY_ROWS)
    schema, evolved = (fastavro.parse_schema(each) for each in (AVRO, EVOLVED))
    make = GetMessageClass(message_of(parse(SchemaText(SchemaType.PROTOBUF, PROTOBUF))))
    payloads, texts = avro_payloads(rows), json_payloads(rows)
    messages = [make(**{name: value for name, value in row.items() if value is not None}) for row in rows]
    written = [each.SerializeToString() for each in messages]

    def to_row(payload: bytes) -> dict[str, Any]:
        message = make.FromString(payload)
        return {name: getattr(message, name) for name in rows[0]}

    work: dict[str, Callable[[], Any]] = {
        "decode_avro": lambda: [fastavro.schemaless_reader(io.BytesIO(each), schema) for each in payloads],
        "decode_evolved": lambda: [
            fastavro.schemaless_reader(io.BytesIO(each), schema, evolved) for each in payloads
        ],
        "decode_protobuf": lambda: [to_row(each) for each in written],
        "decode_json": lambda: [json.loads(each) for each in texts],
        "encode_avro": lambda: avro_payloads(rows),
        "encode_protobuf": lambda: [make(**row).SerializeToString() for row in rows],
        "encode_json": lambda: json_payloads(rows),
    }
    return {name: _best(len(rows), each) for name, each in work.items()}


def _spark(key: str) -> Callable[[Start], Values]:
    """`key` is the decoder: spark or moldau."""

    def measure(start: Start) -> Values:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from bench import spark_avro
        from moldau.schemas.wire import pack_header

        if shutil.which("java") is None or shutil.which("mvn") is None:
            raise RuntimeError("Spark's own functions need java and mvn")
        payloads = avro_payloads(departures()) * _SPARK_ROWS
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "records.parquet"
            framed = pa.array([pack_header(SCHEMA_ID) + each for each in payloads])
            pq.write_table(pa.table({"value": framed, "payload": pa.array(payloads)}), path)
            command = [sys.executable, "-m", "bench.schemas_spark", key, str(path)]
            done = subprocess.run(
                [*command, *map(str, spark_avro.jars())], check=True, capture_output=True, text=True
            )
        found = json.loads(done.stdout.splitlines()[-1])
        return {"raw": found["raw"], "decode_avro": found[key], "decode_evolved": found[f"{key}_evolved"]}

    return measure


FIGURE = Figure(
    "schemas",
    "Records with a schema to columns and back, nine fields, one thread",
    None,
    (
        Row("raw", "bytes as they are", "rows/s", 0),
        Row("decode_avro", "Avro to columns", "rows/s", 0, "half of raw"),
        Row("decode_evolved", "Avro of another version to columns", "rows/s", 0, "half of raw"),
        Row("decode_protobuf", "Protobuf to columns", "rows/s", 0, "half of raw"),
        Row("decode_json", "JSON to columns", "rows/s", 0),
        Row("encode_avro", "columns to Avro", "rows/s", 0),
        Row("encode_protobuf", "columns to Protobuf", "rows/s", 0),
        Row("encode_json", "columns to JSON", "rows/s", 0),
    ),
    note="In Spark (local[1]) the records come from a Parquet file, and `raw` writes them nowhere undecoded.",
    subjects={
        "columns": Subject("moldau.schemas.columns", _ours),
        "libraries": Subject("fastavro, protobuf, json: Python objects", _libraries),
        "spark-moldau": Subject("in Spark, moldau's decoder", _spark("moldau")),
        "spark": Subject("in Spark, from_avro", _spark("spark")),
    },
)
