"""Queues: quotas, fair shares, order, limits, reservations."""
