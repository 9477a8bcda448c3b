"""The texts of a Kafka home's `config/`: short, and true of what the tools beside them do.

    zookeeper.properties     read by zookeeper-server-start
    server.properties        a broker of the cluster that is kept in that ZooKeeper
    kraft/server.properties  a broker alone, without ZooKeeper (where Kafka 3 keeps its own of this kind)
    producer.properties, consumer.properties, connect-*.properties     for clients' --command-config

The paths in them are absolute, so that a tool may be started from any folder.
"""

from __future__ import annotations

from pathlib import Path

_BROKER = """\
# The settings of a broker. Start it with: bin/kafka-server-start.sh {file}
# All settings: docs/settings.md of Moldau. Unknown ones are warned of, and ignored.

{metadata}
# Where clients connect, and what they are told to connect to. For other machines: PLAINTEXT://0.0.0.0:9092
# and advertised.listeners=PLAINTEXT://THIS-HOST:9092
listeners=PLAINTEXT://127.0.0.1:9092

# Where records are kept; several folders separated by commas.
log.dirs={data}

# What a new topic gets if its creator does not say.
num.partitions=1
default.replication.factor=1

# Internal topics: 3 in a cluster of three brokers or more.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1

# Records are deleted after so many hours.
log.retention.hours=168
"""

_WITH_ZOOKEEPER = """\
# The cluster is kept in ZooKeeper; start it first: bin/zookeeper-server-start.sh config/zookeeper.properties
# To run alone, without ZooKeeper: comment this line out, or use config/kraft/server.properties.
zookeeper.connect=localhost:2181

# A number of its own for each broker of the cluster.
broker.id=0
"""

_ALONE = """\
# A broker alone: it keeps its metadata in its own folder. For a cluster see config/server.properties.
# bin/kafka-storage.sh format -t CLUSTER-ID -c {file} is possible, and not needed.
node.id=1
"""

_ZOOKEEPER = """\
# The settings of a ZooKeeper server. Start it with: bin/zookeeper-server-start.sh config/zookeeper.properties

# Where it keeps its data, and where brokers connect.
dataDir={data}
clientPort=2181

# Only this machine connects; remove the line for others.
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
tickTime=2000
"""

_PRODUCER = """\
# Settings of a producer, for --command-config (formerly --producer.config).
bootstrap.servers=localhost:9092

# none, gzip, snappy, lz4 or zstd
compression.type=none

# How long to wait for more records, in milliseconds, and how large a batch may become, in bytes.
linger.ms=5
batch.size=16384
"""

_CONSUMER = """\
# Settings of a consumer, for --command-config (formerly --consumer.config).
bootstrap.servers=localhost:9092
group.id=test-consumer-group

# Where to begin without a committed offset: earliest or latest.
auto.offset.reset=latest
"""

_CONNECT_COMMON = """\
bootstrap.servers=localhost:9092

key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.flush.interval.ms=10000
"""

_CONNECT_STANDALONE = """\
# Settings of a Connect worker that runs alone. Start it with:
# bin/connect-standalone.sh config/connect-standalone.properties connector.properties
{common}
offset.storage.file.filename={data}
"""

_CONNECT_DISTRIBUTED = """\
# Settings of a Connect worker in a group. Start it with:
# bin/connect-distributed.sh config/connect-distributed.properties
{common}
group.id=connect-cluster
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
"""


def config_files(home: Path) -> dict[str, str]:
    """The files of `config/` for a Kafka home: their names within it, and their texts."""
    data = home.absolute() / "data"
    alone = "config/kraft/server.properties"
    return {
        "server.properties": _BROKER.format(
            file="config/server.properties", metadata=_WITH_ZOOKEEPER, data=_escaped(data / "kafka-logs")
        ),
        "kraft/server.properties": _BROKER.format(
            file=alone, metadata=_ALONE.format(file=alone), data=_escaped(data / "kraft-logs")
        ),
        "zookeeper.properties": _ZOOKEEPER.format(data=_escaped(data / "zookeeper")),
        "producer.properties": _PRODUCER,
        "consumer.properties": _CONSUMER,
        "connect-standalone.properties": _CONNECT_STANDALONE.format(
            common=_CONNECT_COMMON, data=_escaped(data / "connect.offsets")
        ),
        "connect-distributed.properties": _CONNECT_DISTRIBUTED.format(common=_CONNECT_COMMON),
    }


def _escaped(path: Path) -> str:
    """A path as a value of a properties file; Java takes letters beyond ASCII for Latin-1 ones."""
    return "".join(_escape(letter) for letter in str(path))


def _escape(letter: str) -> str:
    if letter == "\\":
        return "\\\\"
    code = ord(letter)
    return letter if " " <= letter <= "~" or code > 0xFFFF else f"\\u{code:04x}"
