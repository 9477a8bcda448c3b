"""`moldau registry`: a schema registry with Confluent's paths, errors and records."""
