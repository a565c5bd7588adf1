"""A queue, and what it sends to the server."""
