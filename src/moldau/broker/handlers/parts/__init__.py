"""What several handlers share: the broker's parts, rights, the table of APIs."""
