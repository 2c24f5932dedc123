"""Results for people at work: tables and frames, and a picture of a round."""
