"""What every house stands on: settings, the protocol, records, credentials. It knows nobody."""
