"""The `moldau` command: one file a command. Start reading at main.py, which chooses the file."""
