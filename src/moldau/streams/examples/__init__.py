"""Apps to read and to run, such as `moldau streams run flights.py`; `make demo` runs that and checks it."""
