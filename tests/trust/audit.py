"""Known weaknesses of the packages that are pinned: `python -m tests.trust.audit`, one JSON line.

Asks pip-audit, in an environment of its own. Where it cannot be had, or no source of advisories answers, the
package index itself is asked, which tells the weaknesses of newest releases: older pins are then not audited,
and named under `not_newest`. Where that says nothing either, all are `not audited`, with the reason: that
nothing was found then means nothing. The exit code is 1 only if weaknesses are known.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

from pip._internal.models.index import PyPI

from benchmarks.environments import python_with

PIP_AUDIT = "pip-audit==2.9.0"
CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
SOURCES = ("osv", "pypi")
"""Where pip-audit finds advisories."""
LONGEST = 60.0
"""Seconds that a source has."""
INDEX = "the package index, of newest releases"
AT_ONCE = 4
WEAK = "pycrypto"
"""Given up in 2013 with weaknesses that nobody mends: an index that knows none of them knows none at all."""
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
    return figures(source, len(looked_up), weak)


def figures(source: str, audited: int, weak: Mapping[str, list[str]]) -> dict[str, Any]:
    """Sources keep no date of what they know: it is as of when they were asked."""
    found = sum(map(len, weak.values()))
    return {
        "audited": audited,
        "findings": found,
        "weak": weak,
        "source": source,
        "asked": f"{datetime.now(UTC):%Y-%m-%d}",
    }


class Newest(NamedTuple):
    """The newest release of a package, and the weaknesses of it that are known."""

    version: str
    weak: list[str]


def newest(name: str) -> Newest:
    """Raises RuntimeError where the index does not say it."""
    try:
        with urlopen(f"{PyPI.pypi_url}/{name}/json", timeout=LONGEST) as answer:
            told = json.load(answer)
        weak = [one["id"] for one in told["vulnerabilities"] if not one.get("withdrawn")]
        return Newest(told["info"]["version"], weak)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RuntimeError(f"the package index, of {name}: {error}") from None


def audit_newest(pins: Mapping[str, str], look: Callable[[str], Newest] = newest) -> dict[str, Any]:
    """What the package index knows of pins that are newest releases. RuntimeError if it knows nothing."""
    if not look(WEAK).weak:
        raise RuntimeError("the package index tells no weaknesses")
    with ThreadPoolExecutor(AT_ONCE) as asking:
        found = dict(zip(pins, asking.map(look, pins), strict=True))
    known = {name: one for name, one in found.items() if one.version == pins[name]}
    if not known:
        raise RuntimeError("the package index: no pin is the newest release")
    told = figures(INDEX, len(known), {name: one.weak for name, one in known.items() if one.weak})
    return {**told, "not_newest": sorted(pins.keys() - known)}


def audited(constraints: Path = CONSTRAINTS) -> dict[str, Any]:
    """All figures; `findings` is None where nobody could be asked."""
    pins = pinned(constraints.read_text())
    packages = len(pins)
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
    try:
        print("asking the package index", file=sys.stderr, flush=True)
        return {"packages": packages, **audit_newest(pins)}
    except RuntimeError as error:
        reasons.append(str(error))
    return {"packages": packages, "audited": 0, "findings": None, "not_audited": "; ".join(reasons)}


def main() -> int:
    told = audited()
    print(json.dumps(told))
    return 1 if told["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
