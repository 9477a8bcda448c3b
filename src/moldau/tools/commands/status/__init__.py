"""`moldau status`: health, disk, groups, transactions and compaction of a cluster."""
