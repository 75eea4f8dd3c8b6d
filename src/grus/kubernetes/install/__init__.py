"""Manifests of an installation: custom resource definitions, RBAC, DaemonSets, admission policies."""
