"""State that live pages read: jobs, GPUs, one job's data."""
