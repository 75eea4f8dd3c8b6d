"""Artifacts of jobs, content-addressed: a store of chunks, a cache, and the wrapper of a job's program.

See `docs/artefacts.md`. All code here runs as the Unix user who owns the results, in processes of that user,
with the standard library alone: it is sent along with workers. It does not depend on the server.
"""
