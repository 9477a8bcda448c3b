"""Moldau's figures, measured side by side with Apache Kafka on one machine: `python -m bench --help`."""
