"""Data sets by name: fetched, kept, and dealt out to clients; click logs are a room beside."""
