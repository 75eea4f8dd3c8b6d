"""Training that grows, shrinks and survives without stopping: what runs inside a job's workers. Needs torch."""
