"""Training that grows, shrinks and survives without stopping: what runs in a job's workers. Needs torch."""
