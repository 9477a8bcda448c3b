"""Transcripts of Kafka's command lines: what Kafka's own tools print against a broker of ours.

    $ kafka-topics {server} --create --topic first            {server}: --bootstrap-server HOST:PORT
    Created topic first.                                      standard output, line by line
    ! Missing required argument "[topic]"                     the first line of standard error
    = 1                                                       the exit code, where it is not 0
    < a:1\nb:2\n                                              standard input, after its command line
    ~ no topic id: ...                                        what Moldau says as its error on purpose instead

Ids, addresses and times are replaced by names, so that a transcript holds for any broker. Record them anew
with

    python tests/clients/tool_transcripts.py [topics ...]     needs Java and Maven

which starts a Moldau, and runs the command lines of each file with Apache Kafka's tools, all in one JVM.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "kafka_tool_outputs"
CLASSES = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


class Output(NamedTuple):
    """What a command line did."""

    code: int
    stdout: str
    stderr: str


@dataclass
class Entry:
    """One command line and what it printed."""

    line: str
    stdin: str = ""
    stdout: list[str] = field(default_factory=list)
    error: str = ""
    code: int = 0
    comment: list[str] = field(default_factory=list)
    ours: str = ""

    def arguments(self, server: str, folder: Path) -> list[str]:
        """The words, with the broker's address and the folder of files filled in."""
        named = self.line.replace("{server}", f"--bootstrap-server {server}").replace("{address}", server)
        return shlex.split(named.replace("{folder}", str(folder)))

    def text(self) -> str:
        """The entry as a file has it."""
        lines = [*self.comment, f"$ {self.line}"]
        if self.stdin:
            lines.append(f"< {json.dumps(self.stdin, ensure_ascii=False)[1:-1]}")
        lines += [f"> {each}" if re.match(r"[$<>!=#~]|$", each) else each for each in self.stdout]
        lines += [f"! {self.error}"] if self.error else []
        lines += [f"~ {self.ours}"] if self.ours else []
        lines += [f"= {self.code}"] if self.code else []
        return "".join(f"{each}\n" for each in lines)


def parse(text: str) -> list[Entry]:
    """Read a transcript."""
    entries: list[Entry] = []
    comment: list[str] = []
    for line in text.splitlines():
        mark, rest = line[:2], line[2:]
        if line.startswith("#") or not line:
            comment.append(line)
        elif mark == "$ ":
            entries.append(Entry(rest, comment=comment))
            comment = []
        elif mark == "< ":
            entries[-1].stdin = json.loads(f'"{rest}"')
        elif mark == "! ":
            entries[-1].error = rest
        elif mark == "~ ":
            entries[-1].ours = rest
        elif mark == "= ":
            entries[-1].code = int(rest)
        else:
            entries[-1].stdout.append(rest if mark in ("> ", ">") else line)
    return entries


def seen(entry: Entry, output: Output, server: str, folder: Path) -> Entry:
    """The entry with what a tool has just done, cleaned of what differs from run to run."""
    stdout, errors = (
        [each for each in clean(text, server, folder).splitlines() if not each.startswith(_NOISE)]
        for text in (output.stdout, output.stderr)
    )
    first = next((each for each in errors if each.strip()), "")
    first = first.removeprefix('Exception in thread "main" ')
    if output.stdout and "\n\tat " in output.stderr:
        first = ""  # the reason is on standard output; this is where in Kafka's source
    first = re.sub(r"^[a-z]+(\.[a-z]+)*\.\w+Exception: ", "", first)
    first = "" if any(first in each for each in stdout) else first
    return Entry(entry.line, entry.stdin, stdout, first, output.code, entry.comment, entry.ours)


_NOISE = (
    "\tat ",
    "Caused by",
    "\t... ",
    "The consumer rebalance protocol (KIP-848)",
    "WARN: No action will be performed",
    "Processed a total of ",
)
"""Traces of the stack, an advertisement that Kafka's consumer prints each time, and two remarks that may come
before an error.
"""


def clean(text: str, server: str, folder: Path) -> str:
    """Replace what differs from run to run."""
    host, _, port = server.partition(":")
    text = text.replace(server, "{address}").replace(str(folder), "{folder}")
    text = re.sub(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]", "[{now}]", text)
    text = re.sub(r"TopicId: [\w-]{22}", "TopicId: {id}", text)
    text = re.sub(r"CreateTime:\d{13}", "CreateTime:{ms}", text)
    text = re.sub(r"Cluster ID: \S+", "Cluster ID: {id}", text)
    text = re.sub(r'"timestamp":\d{13}', '"timestamp":{ms}', text)
    text = re.sub(r'"avg_throughput":[\d.E-]+', '"avg_throughput":{rate}', text)
    text = re.sub(r'("log_dirs":\["|"logDir":")/[^"]*"', r'\1{data}"', text)
    text = re.sub(
        r"[\d.]+ (records/sec|ms avg|ms max)|\([\d.]+ MB/sec\)|\b\d+ ms (?=[\d.]+th)", r"{figure} \1", text
    )
    text = re.sub(r"Epoch: \d+$", "Epoch: {epoch}", text, flags=re.MULTILINE)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "{uuid}", text)
    text = re.sub(r"( |^)\(org\.apache\.kafka[\w.$]*\)$", "", text, flags=re.MULTILINE)
    text = text.replace(f"{host}:{port}", "{address}").replace("\r", "")
    text = re.sub(r'"(commitTimestamp|leaderEpoch)":-?\d+', r'"\1":{n}', text)
    text = re.sub(r'"topicId":"[\w-]{22}"', '"topicId":"{id}"', text)
    text = re.sub(rf"\b{port}\b", "{port}", text)
    return re.sub(r"\{address\} +", "{address} ", text)  # columns depend on its length


def replay(
    entries: list[Entry], run: Callable[[list[str], str], Output], server: str, folder: Path
) -> list[Entry]:
    """Run every command line with `run(words, stdin)`."""
    return [seen(each, run(each.arguments(server, folder), each.stdin), server, folder) for each in entries]


class KafkasTools:
    """Apache Kafka's tools in one JVM; a context manager."""

    def __enter__(self) -> KafkasTools:
        from bench import apache_kafka

        command = apache_kafka.java_command("KafkaTools", [], ["-Xmx256M", "-XX:TieredStopAtLevel=1"])
        command[-1:] = [str(FOLDER / "KafkaTools.java")]
        self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __call__(self, words: list[str], stdin: str) -> Output:
        """Run one command line."""
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        question = {"tool": CLASSES[words[0]], "arguments": words[1:], "stdin": stdin}
        self._jvm.stdin.write(json.dumps(question) + "\n")
        self._jvm.stdin.flush()
        answer = json.loads(self._jvm.stdout.readline())
        assert answer["code"] >= 0, f"{' '.join(words)} did not end within a minute: leave it out"
        return Output(answer["code"], answer["stdout"], answer["stderr"])

    def __exit__(self, *_: object) -> None:
        assert self._jvm.stdin is not None
        self._jvm.stdin.close()
        self._jvm.wait(30)


def record(names: list[str]) -> None:
    """Write the transcripts anew."""
    import tempfile

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from bench.brokers import KINDS

    for path in sorted(FOLDER.glob("*.txt")):
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder, KafkasTools() as tools:
            broker = KINDS["moldau"](Path(folder) / "broker", SETTINGS).start()
            try:
                entries = replay(parse(path.read_text()), tools, broker.address, prepare(Path(folder)))
            finally:
                broker.kill()
            path.write_text("".join(each.text() for each in entries))
            print(f"{path}: {len(entries)} command lines")


SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "5"}


def prepare(folder: Path) -> Path:
    """Make the files that the command lines name, in {folder}."""
    files = folder / "files"
    files.mkdir()
    for each in FOLDER.glob("files/*"):
        (files / each.name).write_text(each.read_text())
    return files


if __name__ == "__main__":
    record(sys.argv[1:])
