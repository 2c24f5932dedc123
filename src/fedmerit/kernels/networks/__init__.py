"""Local training as compiled loops: layers forth and back, and every step of one client."""
