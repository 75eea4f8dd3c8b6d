"""The store whose truth is a cluster: GpuJob and GpuQueue objects; `store.KubernetesStore` is the door."""
