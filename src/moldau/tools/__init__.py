"""The `moldau` command, a folder a command family. Start at main.py; app.py has the table of commands."""
