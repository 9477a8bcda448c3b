"""Settings and quotas."""
