"""Telemetry of running jobs: sampling, tags, profiles, time series."""
