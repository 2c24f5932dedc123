"""The SQLite file: opened, its tables, and rows written and read back."""
