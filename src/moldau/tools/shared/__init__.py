"""What several commands use: options, connections, output, errors."""
