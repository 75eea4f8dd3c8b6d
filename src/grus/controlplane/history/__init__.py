"""Results of ended jobs and their retention."""
