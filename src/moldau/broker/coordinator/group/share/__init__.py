"""Share groups (KIP-932): members that have partitions in common.

group.py      persisted state       member.py    one member          records.py   its records
replay.py     records into state    heartbeat.py what a heartbeat decides          requests.py  what is
refused
service.py    requests, timers      states.py    which share-partitions have state at the share coordinator
admin.py      offsets and deletion, as administrators ask for them
"""
