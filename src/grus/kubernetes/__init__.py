"""Kubernetes interface of Grus: custom resources, watches, leader election."""
