"""Kubernetes store, whose source of truth is a cluster: GpuJob and GpuQueue objects; `store.KubernetesStore`
is the entry point.
"""
