"""What is kept of a round: the columns of its rows, and who agreed with whom in bytes."""
