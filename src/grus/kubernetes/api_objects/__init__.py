"""Grus's objects in a cluster: names, namespaces, queues, status of jobs."""
