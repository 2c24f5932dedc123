"""A federation in one process: data, partitions, models, local training, the round loop.

Nothing is imported here, so that handling data does not load PyTorch.
"""
