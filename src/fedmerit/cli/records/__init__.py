"""Commands that show, check and pay what was recorded."""
