"""What a start builds, stage by stage: each holds what exists when it is reached, and the next one gets it.

Ground ──> Addresses ──> Cluster ──> (logs are read) ──> Replication ──> Coordination ──> Serving
"""
