"""Environments of other frameworks, installed before the tests, which have no network: run as a program."""

import sys

from benchmarks.environments import python_with

RAY, DASK = "ray==2.60.0", "distributed==2026.8.0"


def main() -> int:
    """Install what is missing, once. Without it the tests that need it are named as not run."""
    try:
        for requirement in (RAY, DASK):
            python_with(requirement)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
