"""Rendezvous of workers: membership, process groups, communication backends."""
