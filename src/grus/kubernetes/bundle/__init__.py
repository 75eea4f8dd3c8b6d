"""Code bundles: stored in the cluster, unpacked in pods."""
