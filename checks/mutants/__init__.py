"""Mutation testing: change one thing in the code and see whether a test notices."""
