"""Results pages: which code made them, and whether who quotes them quotes what they say."""
