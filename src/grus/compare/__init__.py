"""The same workload in two environments, from one description: the differences, and their size.

workload        the job that is run, from a job file
environments    the places where it is run, and the interface of an environment's driver
drivers         one file per environment; preflight and probe: its state before the first run
sampler         the program that travels with the workload, starts it and records it
records         the sampler's records as values
running         the order of the runs, and the handling of an environment that fails
result          the folder of a comparison: resumable, readable later
run_metrics     the metrics of one run
statistics      means, medians, p95 and intervals over repeats
confounds       differences besides the environment
cpu_load        the cost of a CPU-heavy load beside the workload
report          the results; report_tables, drawing: tables and plots; comparison_page: their presentation
"""
