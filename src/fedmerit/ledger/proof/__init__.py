"""What makes a ledger provable: canonical bytes, hashes, signatures, heads, statements, checks."""
