"""GPU memory and GPU counts of jobs that leave the choice to Grus."""
