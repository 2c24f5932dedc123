"""The free-rider benchmark of others, in our simulator."""
