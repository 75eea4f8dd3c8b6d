"""Run the tests that just failed once more, with the machine for themselves.

    python -m tools.second_look

The suite works with real processes, a real Kubernetes and a real browser, two at a time. What fails there and
passes alone was short of time, not wrong; it is named all the same, because a test that needs luck is a debt.
More than a handful of failures are no bad luck, and get no second look.
"""

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
HANDFUL = 4


def main() -> int:
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= HANDFUL:
        return 1
    print(f"== {len(failed)} failed beside other tests; once more, alone", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", *failed], check=False).returncode
    if code == 0:
        for name in failed:
            print(f"UNSTEADY {name}: failed beside other tests, passed alone", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
