"""Run the tests that just failed once more, with the machine for themselves.

    python -m tools.second_look CODE

The suite works with real processes, a real Kubernetes and a real browser, two at a time. What fails there and
passes alone was short of time, not wrong; it is named all the same, because a test that needs luck is a debt.
More than a handful of failures are no bad luck, and get no second look. Nor does a suite that ended with
another code than that of failed tests: then some of it never ran.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

FAILED = Path(".pytest_cache/v/cache/lastfailed")
HANDFUL = 4
TESTS_FAILED = 1
"""pytest's code for it; all others mean that tests did not run."""


def main(code: int) -> int:
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if code != TESTS_FAILED or not 0 < len(failed) <= HANDFUL:
        return code or 1
    if not all("::" in name for name in failed):  # a file that could not be read: none of its tests ran
        return code
    print(f"== {len(failed)} failed beside other tests; once more, alone", flush=True)
    if passed(failed) != len(failed):
        return code
    for name in failed:
        print(f"UNSTEADY {name}: failed beside other tests, passed alone", flush=True)
    return 0


def passed(names: list[str]) -> int:
    """How many of these tests pass; 0 if anything goes wrong. One that is skipped has not passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        run = [sys.executable, "-m", "pytest", f"--junit-xml={report}", *names]
        if subprocess.run(run, check=False).returncode:
            return 0
        cases = ElementTree.parse(report).iter("testcase")
        return sum(case.find("skipped") is None for case in cases)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
