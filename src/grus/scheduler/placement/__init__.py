"""Placement of requests on GPUs: gangs, slices, shared GPUs, GPU types, fragmentation."""
