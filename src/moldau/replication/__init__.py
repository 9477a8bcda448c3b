"""A partition and its copies: append as leader, fetch, high watermark; the followers join in later."""
