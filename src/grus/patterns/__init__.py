"""What telemetry means: rhythm, kind, stage, trouble, and what comes next. Pure: arrays in, values out."""
