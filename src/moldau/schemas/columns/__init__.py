"""Records with a schema <-> Arrow columns: what pipelines and Spark use.

    spark_types(parsed)                        the columns of a schema, as Spark's own converters map them
    is_record(parsed)                          whether they are fields of a record
    Decoder(reader, schema_by_id).decode(...)  records in Confluent's wire format -> columns
    Encoder(parsed, schema_id).encode(...)     columns -> records in that format
    schema_of_arrow(columns, type, name)       the schema to register for these columns

    decoder.py  encoder.py      one interface for the three languages
    avro_tree.py  avro_types.py  avro_program.py  avro_default.py
                                Avro: the parser's tree; its types in Arrow; writer and reader as a program
    protobuf_types.py  protobuf_program.py
                                Protobuf: a message's types in Arrow; a message as a program
    json_types.py  json_decoder.py
                                JSON Schema: its types in Arrow; records of JSON by Arrow's parser or orjson
    program.py  kernel.py       what a program is; what runs it (_decode.c, or its twin in Python:
                                cells.py, wire_values.py, kernel_protobuf.py)
    writing.py  encode_kernel.py
                                the same for encoding (_encode.c, or its twin in Python)
    from_arrow.py               schemas for columns
    errors.py                   NoColumns, NotEncodable, UnknownSchema

Nothing here asks a registry: `schema_by_id` is the caller's. Not here: which schema is the reader's, and what
becomes of bad records (streams, pyspark_moldau).
"""

from moldau.schemas.columns.decoder import Decoder, is_record, spark_types
from moldau.schemas.columns.encoder import Encoder
from moldau.schemas.columns.errors import NoColumns, NotEncodable, UnknownSchema
from moldau.schemas.columns.from_arrow import schema_of_arrow

__all__ = [
    "Decoder",
    "Encoder",
    "NoColumns",
    "NotEncodable",
    "UnknownSchema",
    "is_record",
    "schema_of_arrow",
    "spark_types",
]
