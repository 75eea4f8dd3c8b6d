"""Export of a training as a graph of operators, and its parts as modules."""
