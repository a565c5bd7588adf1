"""A queue of several keys, which can be on several nodes of a cluster: `Queue(url, name, keys="auto")`."""
