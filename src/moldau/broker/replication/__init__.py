"""A partition's replica on this broker: its role, appends, reads, high watermark, in-sync replicas."""
