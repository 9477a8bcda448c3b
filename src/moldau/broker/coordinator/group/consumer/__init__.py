"""Consumer groups (KIP-848): the broker computes the assignment; heartbeats move each member towards it."""
