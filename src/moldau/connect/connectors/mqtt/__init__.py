"""MQTT (5, or 3.1.1): messages as records, and records as messages.

session.py    one connection that is kept up, and what a server refuses, as the worker's errors
settings.py   what both directions share
source.py     at least once: a message is acknowledged when its record is committed in Kafka
sink.py       at least once: a run is done when the server has acknowledged all of it
"""
