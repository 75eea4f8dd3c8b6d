"""Simulated execution of a placement: step time, memory over time, pictures."""
