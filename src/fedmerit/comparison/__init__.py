"""Clients compared: which pairs, how far they agree, what is private, what points where."""
