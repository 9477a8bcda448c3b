"""The share coordinator (KIP-932): keeps the state of share-partitions in `__share_group_state`.

state.py     one share-partition's state, and how an update changes it
records.py   its records, as Kafka writes them
shard.py     the state machine in a coordinator shard
service.py   the coordinator as handlers see it, and pruning
states.py    the share coordinators of the whole cluster, as group coordinator and leaders see them
"""
