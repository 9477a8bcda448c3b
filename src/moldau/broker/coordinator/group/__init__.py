"""Consumer groups of both protocols and their committed offsets, as state machines without input or
output."""
