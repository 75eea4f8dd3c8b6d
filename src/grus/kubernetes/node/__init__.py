"""Parts that node agent and profiler share: control groups, tags, writes of annotations."""
