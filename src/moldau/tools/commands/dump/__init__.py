"""`moldau dump-log`: the records of log segments, indexes, checkpoints and snapshots."""
