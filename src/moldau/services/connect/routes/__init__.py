"""The REST interface of Kafka Connect.

calls.py        what routes have in common: who may do what, the leader, words of errors
connectors.py   /connectors: make, configure, remove, list
states.py       …/status, pause, resume, stop, restart, topics; tasks
offsets.py      …/offsets (KIP-875)
plugins.py      /connector-plugins, validate
loggers.py      /admin/loggers (KIP-495, KIP-976)
workers.py      /, /health; what workers ask one another, signed
"""
