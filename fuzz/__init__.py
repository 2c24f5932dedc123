"""Random bytes for every parser of bytes from outside; see `fuzz.targets`."""
