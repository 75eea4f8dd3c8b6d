"""Hyperparameter search: choose the next trials, early stopping, and the growth of good trials. Pure."""
