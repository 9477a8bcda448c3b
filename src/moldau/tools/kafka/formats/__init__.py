"""How records, groups and plans are printed and read."""
