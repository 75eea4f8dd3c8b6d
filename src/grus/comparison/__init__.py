"""The same workload in two environments, from one description: what differs, and by how much.

workload        what is run, from a job file
environments    where it is run, and what a driver of an environment promises
drivers         one file an environment; preflight and probe: what it is worth before the first run
sampler         the program that travels with the workload, starts it and records it
records         what the sampler wrote, as values
running         the order of the runs, and what becomes of an environment that fails
result          the folder of a comparison: resumable, readable later
measures        what one run amounts to
statistics      means, medians, p95 and intervals over repeats
confounds       what differs besides the environment
coload          what a CPU-heavy load beside it costs
report          what came out; telling and drawing: its tables and plots; sheets: how they are shown
traces          what others recorded; signs: what can be read off it
objections      why it does not compare; misreadings: figures that are not what they seem
recorded        both, as a sheet
"""
