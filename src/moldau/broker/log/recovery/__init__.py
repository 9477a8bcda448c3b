"""Opening a log after a clean stop or a crash; damage, and what becomes of it."""
