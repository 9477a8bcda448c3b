"""Kafka's own command lines: `kafka-topics.sh` and the others, as an introduction to Kafka prints them.

The tools take Kafka's options, print Kafka's lines (scripts parse them) and end with Kafka's exit codes. They
share what is behind `moldau topics` and the others; only the manner of speaking differs.

    bin/kafka-topics.sh --list      a script that `moldau kafka-home` writes
      -> python -P -m moldau.tools.kafka kafka-topics.sh --list      __main__.py
         -> running.run: the tool's module by tools.TOOLS, loaded now, and only that
            -> module.main(words) -> exit code

A tool is a module with `def main(words: Sequence[str]) -> int`, and a row in `tools.TOOLS`. Two manners of
command lines, as Kafka's tools have them:

* lines/options.py (Kafka: jopt-simple): most tools. No abbreviations; `--topic x`, `--topic=x`, `-topic x`.

      PARSER = Parser("kafka-topics", "Creates, deletes and shows topics.", (
          Option("bootstrap-server", "server to connect to", "A broker.", required=True),
          Option("partitions", "# of partitions", "How many.", kind=int),
          flag("list", "List the topics."),
      ))
      def main(words):
          given = PARSER.parse(words)      # --help, --version and wrong words end here, with an exception
          given.flag("list"), given.text("topic"), given.texts("config"), given.number("partitions")
          PARSER.require(given, "topic")   # Missing required argument "[topic]"
          PARSER.exclude(given, "list", "topic")   # Option "[list]" can't be used with option "[topic]"

* subcommands.py (Kafka: argparse4j): kafka-transactions, -features, -cluster, -storage, -producer-perf-test,
  -verifiable-*: `Subcommands`, an argparse.ArgumentParser whose errors read and end as Kafka's do.

What a tool raises: problems.ToolError(text, code=1, on_stdout=False), where the tool's own failure is one
line (Kafka's text); problems.CommandLineError for words that cannot be (printed with the line to type).
Everything else (connection.ConnectionLost, ClientError of moldau.client, KafkaException, closed pipes,
Ctrl-C) is turned into a sentence by running.py. Never a traceback; MOLDAU_TRACEBACK=1 shows it to who
develops a tool.

The cluster: reaching.cluster(given) gives a moldau.client.Cluster (any API of
moldau.common.protocol.messages, in the highest common version; TLS and SASL/PLAIN from --command-config) from
--bootstrap-server, --broker-list or --zookeeper; a broker that is not there is an answer within 5 s.
reaching.librdkafka(given) gives the settings of a confluent-kafka client, for tools that produce and consume;
import confluent_kafka within functions only.
"""
