"""Node agent: one on each node, between the API server and the files and processes of the workers there.

It copies the controller's annotations on a pod into the pod's volume, and the worker's reports back onto the
pod; kills at the deadline; measures. It decides nothing about jobs, keeps no data that it could not find
again after a restart, and trusts no file in a worker's volume.
"""
