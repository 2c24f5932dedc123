"""How often clients without private work are taken to have worked."""
