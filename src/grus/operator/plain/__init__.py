"""Plain pods with Grus as their scheduler: jobs whose record is the pod itself.

A waiting pod is a waiting job. To record its start is to bind it: the binding carries its placement, so both
exist or neither. All other data about it is read from the pod. Such a job cannot be paused: preempting it
means deleting the pod gracefully, as every Kubernetes scheduler does; its owner creates another.
"""
