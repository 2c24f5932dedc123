"""Whether scores rank clients by what they contributed."""
