"""The paper's experiments: one frozen spec each, and a runner that continues where it stopped.

Nothing is imported here, so that naming an experiment does not load PyTorch.
"""
