"""What is measured once and told in docs/results: lies, riders, click logs, faults in Flower."""
