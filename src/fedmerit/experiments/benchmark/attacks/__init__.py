"""Every behaviour against every score."""
