"""What the scores are worth, measured: one benchmark per question, each a command away.

Nothing is imported here, so that naming a benchmark does not load PyTorch.
"""
