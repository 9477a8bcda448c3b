"""Time, files, network, randomness, settings, waiting: dependencies on the outside, injectable for tests."""
