"""Commands for users: jobs, queues, sweeps, reports, one module for each group of commands."""
