"""Commands that run federations on this machine, and their data."""
