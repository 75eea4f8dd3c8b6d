"""Forecasts of when jobs start and end."""
