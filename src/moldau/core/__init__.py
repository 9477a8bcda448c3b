"""What touches the world (time, files, randomness, settings, waiting), injectable for the sake of tests."""
