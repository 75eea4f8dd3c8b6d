"""The demo: a server and jobs on virtual GPUs, shown step by step."""
