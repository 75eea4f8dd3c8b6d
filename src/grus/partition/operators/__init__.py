"""Graphs of operators: costs, coarsening, backward pass, groups that are placed together."""
