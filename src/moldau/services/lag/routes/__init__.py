"""Burrow's HTTP interface, and a page of our own for what Burrow has not."""
