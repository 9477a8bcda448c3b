"""Topics and partitions: metadata, changes, elections, reassignments."""
