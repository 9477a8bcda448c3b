"""`moldau transactions`: list, describe, describe-producers, find-hanging, abort, terminate."""
