"""The same record or reading as a command or program: kcat, Python, Java, curl, Spark.

Texts are quoted for the language that they stand in: a topic's name or a key may hold anything.
"""

from __future__ import annotations

import json
import shlex
from typing import NamedTuple
from urllib.parse import quote


class Place(NamedTuple):
    """What is read: all partitions for None, from an offset on, so many records."""

    bootstrap_servers: str
    topic: str
    partition: int | None = None
    offset: int | None = None
    records: int = 1


def snippets(place: Place) -> dict[str, str]:
    """The text by its title."""
    return {
        "kcat": _kcat(place),
        "moldau": _moldau(place),
        "Python": _python(place),
        "Java": _java(place),
        "curl": _curl(place),
        "Spark": _spark(place),
    }


def _kcat(place: Place) -> str:
    words = ["kcat", "-C", "-b", place.bootstrap_servers, "-t", place.topic]
    if place.partition is not None:
        words += ["-p", str(place.partition)]
    words += ["-o", str(place.offset) if place.offset is not None else "beginning", "-c", str(place.records)]
    words += ["-f", r"%p %o %T %k %h %s\n"]
    return shlex.join(words)


def _moldau(place: Place) -> str:
    words = ["moldau", "consume", place.topic, "-b", place.bootstrap_servers, "--json"]
    if place.partition is not None:
        words += ["-p", str(place.partition)]
    if place.offset is not None:
        words += ["-o", f"{place.offset}:{place.offset + place.records}"]
    else:
        words += ["-o", "start", "-e"]
    return shlex.join(words)


def _python(place: Place) -> str:
    topic, servers = json.dumps(place.topic), json.dumps(place.bootstrap_servers)
    if place.partition is None:
        begin = (
            f"metadata = consumer.list_topics({topic}).topics[{topic}]\n"
            f"consumer.assign([TopicPartition({topic}, each, OFFSET_BEGINNING) "
            "for each in metadata.partitions])"
        )
        names = "OFFSET_BEGINNING, Consumer, TopicPartition"
    else:
        begin = f"consumer.assign([TopicPartition({topic}, {place.partition}, {place.offset or 0})])"
        names = "Consumer, TopicPartition"
    return f"""from confluent_kafka import {names}

consumer = Consumer({{"bootstrap.servers": {servers}, "group.id": "look", "enable.auto.commit": False}})
{begin}
for message in consumer.consume({place.records}, timeout=10):
    print(message.partition(), message.offset(), message.key(), message.value())
consumer.close()"""


def _java(place: Place) -> str:
    topic, servers = json.dumps(place.topic), json.dumps(place.bootstrap_servers)
    partition, offset = place.partition or 0, place.offset or 0
    return f"""var settings = new java.util.Properties();
settings.put("bootstrap.servers", {servers});
var bytes = new org.apache.kafka.common.serialization.StringDeserializer();
try (var consumer = new org.apache.kafka.clients.consumer.KafkaConsumer<>(settings, bytes, bytes)) {{
    var partition = new org.apache.kafka.common.TopicPartition({topic}, {partition});
    consumer.assign(java.util.List.of(partition));
    consumer.seek(partition, {offset}L);
    for (var record : consumer.poll(java.time.Duration.ofSeconds(10)))
        System.out.printf("%d %s %s%n", record.offset(), record.key(), record.value());
}}"""


def _curl(place: Place) -> str:
    query = f"max={place.records}" if place.records else ""
    if place.partition is not None:
        query = f"partition={place.partition}&from={place.offset or 0}&{query}"
    topic = quote(place.topic, safe="")
    return (
        "# by `moldau rest`\n"
        "CLUSTER=$(curl -s http://127.0.0.1:8082/v3/clusters | jq -r '.data[0].cluster_id')\n"
        f'curl -s "http://127.0.0.1:8082/v3/clusters/$CLUSTER/topics/{topic}/records?{query}"'
    )


def _spark(place: Place) -> str:
    topic, servers = json.dumps(place.topic), json.dumps(place.bootstrap_servers)
    options = [f'.option("kafka.bootstrap.servers", {servers})']
    if place.partition is None:
        options += [f'.option("subscribe", {topic})', '.option("startingOffsets", "earliest")']
    else:
        partitions = json.dumps({place.topic: [place.partition]})
        starts = json.dumps({place.topic: {str(place.partition): place.offset or 0}})
        ends = json.dumps({place.topic: {str(place.partition): (place.offset or 0) + place.records}})
        options += [
            f'.option("assign", {json.dumps(partitions)})',
            f'.option("startingOffsets", {json.dumps(starts)})',
            f'.option("endingOffsets", {json.dumps(ends)})',
        ]
    lines = "\n    ".join(options)
    return f"""records = (
    spark.read.format("moldau")
    {lines}
    .load()
)
columns = ("partition", "offset", "CAST(key AS STRING)", "CAST(value AS STRING)")
records.selectExpr(*columns).show(truncate=False)"""
