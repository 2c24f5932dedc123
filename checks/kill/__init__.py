"""Two processes that write and pay, and are killed: nothing is lost, and nothing paid twice."""
