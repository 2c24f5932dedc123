"""Pictures of the documentation, and its notebook, made by today's code."""
