"""Training by name: a model, data, a loss and an optimizer, each by its usual name, and nothing to write."""
