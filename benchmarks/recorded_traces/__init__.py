"""Audit of published traces: CSV files of `sar` and `nvidia-smi`, and the reasons why they do not compare.

traces               the files, read
features             period, ramp-up, pauses and GPUs in use
incompatibility      reasons not to compare two places
misleading_figures   figures that are not what they seem
report               all of it as a sheet
"""
