"""Parts of the training loop: arguments, step times, reports, evaluation, export, shutdown."""
