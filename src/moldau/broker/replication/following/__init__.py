"""Following: copies what the leaders on other brokers have; `replica_fetcher.py` is the entrance."""
