"""The node agent: one on each node, between the API server and the files and processes of the workers there.

It brings what the controller writes on a pod into the pod's volume, and what the worker says back onto the
pod; kills what is due; measures. It decides nothing about jobs, keeps nothing that it could not find again
after a restart, and trusts nothing that lies in a worker's volume.
"""
