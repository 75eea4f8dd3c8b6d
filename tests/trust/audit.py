"""Known weaknesses of the packages that are pinned: `python -m tests.trust.audit`, one JSON line.

Asks pip-audit, in an environment of its own. Where it cannot be had, or no source of advisories answers,
the packages are `not audited`, with the reason: that nothing was found then means nothing. The exit code is 1
only if weaknesses are known.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.environments import python_with

PIP_AUDIT = "pip-audit==2.9.0"
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
SOURCES = ("osv", "pypi")
"""Where pip-audit finds advisories."""
LONGEST = 60.0
"""Seconds that a source has."""
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)")


def pinned(text: str) -> dict[str, str]:
    """Versions by name."""
    return {found[1]: found[2] for line in text.splitlines() if (found := PIN.match(line))}


def audit(python: Path, constraints: Path, source: str) -> dict[str, Any]:
    """What a source knows of the pins. Raises RuntimeError where it says nothing that can be read."""
    command = [str(python), "-m", "pip_audit", "--no-deps", "--disable-pip", "-f", "json", "-s", source]
    try:
        done = subprocess.run(
            [*command, "-r", str(constraints)], capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{source} did not answer within {LONGEST:g} s") from None
    return told_by(done.stdout, done.stderr, source)


def told_by(output: str, trouble: str, source: str) -> dict[str, Any]:
    """The figures in pip-audit's own JSON: packages that it looked up, and the weaknesses of each."""
    try:
        found = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = trouble.strip().splitlines()[-1:] or ["it said nothing"]
        raise RuntimeError(f"{source}: {last[0][-200:]}") from None
    looked_up = [one for one in found if "vulns" in one]
    if not looked_up:
        raise RuntimeError(f"{source}: no package was looked up")
    weak = {one["name"]: [vuln["id"] for vuln in one["vulns"]] for one in looked_up if one["vulns"]}
    return {"audited": len(looked_up), "findings": sum(map(len, weak.values())), "weak": weak}


def audited(constraints: Path = CONSTRAINTS) -> dict[str, Any]:
    """All figures; `findings` is None where nobody could be asked."""
    packages = len(pinned(constraints.read_text()))
    reasons: list[str] = []
    try:
        python = python_with(PIP_AUDIT)
        for source in SOURCES:
            print(f"asking {source}", file=sys.stderr, flush=True)
            try:
                return {"packages": packages, **audit(python, constraints, source)}
            except RuntimeError as error:
                reasons.append(str(error))
    except RuntimeError as error:
        reasons.append(str(error))
    return {"packages": packages, "audited": 0, "findings": None, "not_audited": "; ".join(reasons)}


def main() -> int:
    figures = audited()
    print(json.dumps(figures))
    return 1 if figures["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
