"""A partition on disk: segments, indexes, producers, leader epochs, retention and recovery."""
