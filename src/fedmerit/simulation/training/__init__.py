"""Models, and the local training of a round's clients, by the fastest way that fits.

Nothing is imported here, so that settings do not load PyTorch.
"""
