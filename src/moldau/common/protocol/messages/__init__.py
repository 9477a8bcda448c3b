"""The messages, one file an API; consumer protocol and coordinator records beside them.

Names are those of Kafka's own schemas, fields in snake case, so that a protocol guide and a packet dump read
alike. Units stay in the names (`throttle_time_ms`); error codes are plain ints, ids raw 16 bytes, timestamps
milliseconds.
"""
