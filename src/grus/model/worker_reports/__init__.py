"""Reports that workers write, one JSON object a line."""
