"""Control plane: the reconciler (control loop) that applies the desired state, and the services behind every
entry point.
"""
