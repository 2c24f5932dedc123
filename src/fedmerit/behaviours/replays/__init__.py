"""Riders that make their report from what every client knows: the global updates so far."""
