"""A cluster as a broker: `redis+cluster://host:port,host:port`. Each queue of Celery is on the node of its slot."""
