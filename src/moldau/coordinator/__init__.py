"""Group coordination: requests are decided purely, written to `__consumer_offsets`, replayed, and only then
answered."""
