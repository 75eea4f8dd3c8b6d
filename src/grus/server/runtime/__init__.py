"""The server process: lock, logs, TLS certificate, GPUs and telemetry sources, first start."""
