"""Aggregators: from the updates and weights of a round to the global update."""

from fedmerit.aggregators.rules import AGGREGATORS, aggregate

__all__ = ["AGGREGATORS", "aggregate"]
