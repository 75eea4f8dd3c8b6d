"""Results of jobs, kept by their content and handed on: a vault of chunks, a cache beside it, and the program
that stands around a job's own (`docs/artefacts.md`).

Everything here runs as the Unix user whose results they are, in processes of that user, with the standard
library alone: it travels with workers. Nothing here knows the server.
"""
