"""What programs write again and again around a Kafka client, done once: a library on confluent-kafka.

Each module is one pattern with a page in docs/, for sync and asyncio programs, against any Kafka broker. It
imports nothing of the broker (of Moldau only `core`: files, checksums, clocks); `lint-imports` checks it.
"""
