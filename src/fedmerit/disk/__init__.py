"""Files that appear whole or not at all, and one writer at a time."""
