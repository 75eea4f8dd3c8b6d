"""Forecasts of the live pool: when jobs start and end, with their uncertainty."""
