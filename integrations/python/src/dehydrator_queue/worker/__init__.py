"""A worker, and its settings."""
