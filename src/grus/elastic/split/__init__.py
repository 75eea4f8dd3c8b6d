"""Training of a model that is split over several GPUs: pipeline stages and operator placement."""
