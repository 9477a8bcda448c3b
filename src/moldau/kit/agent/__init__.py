"""The local delivery agent: it takes messages from programs on this machine, and delivers them to Kafka.

It is built on `moldau.kit` (its messages wait in a spool) and is started by `moldau agent run`.
"""
