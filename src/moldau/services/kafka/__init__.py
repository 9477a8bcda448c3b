"""A cluster as services reach it from an event loop: blocking clients in threads, with limits.

admin_threads.py   requests of `client/admin`     reading.py   records from positions that the caller holds
producing.py       records that are written       topic_sizes.py   partition counts, kept for a while
byte_budget.py     bytes in use, of a fixed number     librdkafka_errors.py   its errors as Kafka's
"""
