"""The `moldau` commands, a folder each; ../app.py has their table."""
