"""The edge: what people and programs write is parsed and judged here, what they read is rendered. No I/O."""
