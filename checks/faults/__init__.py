"""What can go wrong, provoked for real: `make faults` writes docs/results/faults.md."""
