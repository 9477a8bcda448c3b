"""What touches the world (time, files, randomness, settings, waiting), injectable so that tests can fake it."""
