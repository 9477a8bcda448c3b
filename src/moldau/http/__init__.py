"""What the HTTP services have in common: serving, bodies with limits, errors, logins, rights, settings."""
