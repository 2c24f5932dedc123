"""Random bytes for every parser of bytes from outside; see `checks.fuzz.targets`."""
