"""Towards Kafka: administration, producing and reading, shared by both versions of the REST proxy."""
