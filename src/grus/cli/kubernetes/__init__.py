"""Grus on a cluster, from the outside: installing it, removing it, and using it with one's own kubeconfig."""
