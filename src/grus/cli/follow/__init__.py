"""Follow a running job or workflow: state, logs, exit code."""
