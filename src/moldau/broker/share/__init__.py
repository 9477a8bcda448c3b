"""Share-partitions (KIP-932): which records of a partition a share group's members have, and who has dealt
with what. They live on the broker that leads the partition.

    record_runs.py       states of records, as runs of offsets
    share_partition.py   the state machine of one share-partition
"""
