"""What touches the world (time, files, randomness, settings, waiting), so that everything above can be given a fake."""
