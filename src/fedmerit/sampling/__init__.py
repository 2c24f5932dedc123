"""Which parameters are looked at: a sample drawn late, in strata of what the public knows."""
