"""Clients that train, and then lie about it, share it, spoil it, or claim more than there was."""
