"""The snapshot that decisions are made on: jobs, devices, tentative changes."""
