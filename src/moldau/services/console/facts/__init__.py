"""What is known of the cluster, in memory: pages read it and ask nobody.

snapshot.py    the cluster at one moment, immutable; filled in part by part
listing.py     search, order and pages of long lists (pure)
collector.py   refreshes the snapshot, a slice at a time
series.py      the course of numbers, in a fixed memory
timeline.py    what happened between two snapshots (pure)
verdict.py     how the cluster is, and why (pure)
broker_health.py   asks brokers of ours for their own verdict
"""
