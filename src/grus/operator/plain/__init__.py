"""Plain pods that ask for Grus as their scheduler: jobs whose record is the pod itself.

A waiting pod is a waiting job. To record its start is to bind it: the binding carries the places that it
holds, so both are there or neither. Everything else about it is read off the pod. Such a job cannot be
paused: making room means deleting the pod gracefully, as every Kubernetes scheduler does; who owns it makes
another.
"""
