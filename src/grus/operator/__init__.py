"""Grus on Kubernetes: objects become jobs, the control plane decides, pods run. See `docs/kubernetes.md`."""
