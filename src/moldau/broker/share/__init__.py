"""Share-partitions (KIP-932): which records of a partition a share group's members have, and who has dealt
with what. They live on the broker that leads the partition.

    record_runs.py       states of records, as runs of offsets
    share_partition.py   the state machine of one share-partition
    log_parts.py         which offsets of the log's batches hold records that members may get
    served.py            one share-partition with its log and its writes to the share coordinator
    partitions.py        the share-partitions of this broker
    sessions.py          sessions of members
"""
