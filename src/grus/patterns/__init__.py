"""Interpretation of telemetry: period, kind, stage, trouble, and forecasts. Pure: arrays in, values out."""
