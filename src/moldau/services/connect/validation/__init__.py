"""What `…/config/validate` answers, and what a connector's configuration is checked by."""
