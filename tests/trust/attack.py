"""Strangers at the door: `python -m tests.trust.attack --cases 1000` (10,000 for long).

A real server with two projects (`projects`) is asked by everybody: with what schemathesis makes of its own
description (`fuzz`), on all its routes by name (`routes`), and as no client asks (`intrusion`); and members'
jobs attack it and each other from inside, in each mode of isolation (`inside`). No answer may
be a server's error, differ from the description, or tell anybody of another project's things; without a token
nothing may answer but what is public. One JSON object comes last; the exit code is 1 if a promise was broken.
Where schemathesis cannot be had, `not_fuzzed` says why; that is no success. Ranges add up by `--seed`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.environments import python_with
from grus.server.http.auth_middleware import PUBLIC
from tests.trust import inside, intrusion, routes
from tests.trust.projects import CALLERS, MARK, Projects, two_projects

SCHEMATHESIS = "schemathesis==4.32.5"
WRONGS = ("server_errors", "schema_breaks", "leaks", "open_doors")
EXAMPLES = 5
"""Wrongs of a kind that are written out."""


def description(pool: Projects) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{pool.address}/v1/openapi.json", headers={"Authorization": "Bearer grus_admin"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def without_security(described: dict[str, Any]) -> dict[str, Any]:
    """Who asks is the caller's part: the fuzzer shall not make tokens up."""
    kept = {name: value for name, value in described.items() if name != "security"}
    paths = {
        path: {
            verb: {name: value for name, value in told.items() if name != "security"}
            for verb, told in verbs.items()
        }
        for path, verbs in described["paths"].items()
    }
    parts = {name: value for name, value in described["components"].items() if name != "securitySchemes"}
    return {**kept, "paths": paths, "components": parts}


def orders(pool: Projects, cases: int, seed: int) -> dict[str, Any]:
    """What the fuzzer shall do; those who are let in get two thirds of the cases."""
    weights = {caller.name: 2 if caller.known else 1 for caller in CALLERS}
    total, given, callers = sum(weights.values()), 0, []
    done = 0
    for caller in CALLERS:
        done += weights[caller.name]
        share = cases * done // total - given
        given += share
        callers.append({**asdict(caller), "cases": share})
    return {
        "address": pool.address,
        "description": without_security(description(pool)),
        "callers": callers,
        "known": pool.known,
        "ids": pool.live,
        "mark": MARK.pattern.replace("(", "(?:"),
        "public": [f"GET {path}" for path in PUBLIC],
        "seed": seed,
    }


def fuzz(python: Path, told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each caller found, as they come."""
    command = [str(python), str(Path(__file__).with_name("fuzz.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(told))
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
    if process.returncode != 0:
        raise RuntimeError(f"the fuzzer ended with {process.returncode}")


def fuzzed(pool: Projects, cases: int, seed: int) -> dict[str, Any]:
    """The figures of all callers; only the reason where it could not run."""
    try:
        python = python_with(SCHEMATHESIS)
    except RuntimeError as error:
        return {"cases": 0, "not_fuzzed": str(error)}
    told = orders(pool, cases, seed)
    found: list[dict[str, Any]] = []
    for one in fuzz(python, told):
        found.append(one)
        wrong = {kind: len(one[kind]) for kind in WRONGS if one[kind]}
        say(f"{one['caller']}: {one['cases']} cases, {one['by_status']} {wrong or ''}")
        for kind in WRONGS:
            for text in one[kind][:EXAMPLES]:
                say(f"  {kind}: {text}")
    described = {
        f"{verb.upper()} {path}" for path, verbs in told["description"]["paths"].items() for verb in verbs
    }
    return {
        "cases": sum(one["cases"] for one in found),
        **{kind: sum(len(one[kind]) for one in found) for kind in WRONGS},
        "by_role": {one["caller"]: {"cases": one["cases"], **one["by_status"]} for one in found},
        "routes_described": len(described),
        "routes_reached": len(described & {route for one in found for route in one["reached"]}),
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def attack(cases: int, seed: int) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, two_projects(Path(folder)) as pool:
        say(f"the server answers after {time.monotonic() - began:.1f} s")
        walked = routes.walked(pool)
        say(f"{walked['routes_tested']} of {walked['routes']} routes, {walked['route_answers']} answers")
        for wrong in walked["route_wrongs"]:
            say(f"  {wrong[:500]}")
        intruded = intrusion.survived(pool, say)
        say(f"{intruded['survived']} of {intruded['attacks']} attacks survived")
        figures = fuzzed(pool, cases, seed)
    inner = inside.survived(say)
    for wrong in inner["inside_through"]:
        say(f"  got through: {wrong}")
    return {
        **figures,
        **walked,
        **with_inside(intruded, inner),
        "seconds": round(time.monotonic() - began, 1),
    }


def with_inside(intruded: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """The figures of attacks through the door and of those from inside jobs, together."""
    count, through = sum(inner["inside"].values()), inner["inside_through"]
    return {
        "attacks": intruded["attacks"] + count,
        "survived": intruded["survived"] + count - len(through),
        "got_through": [*intruded["got_through"], *through],
        **{name: value for name, value in inner.items() if name != "inside_through"},
    }


def broken(figures: dict[str, Any]) -> list[str]:
    """Promises that were not kept, by the names of their figures."""
    found = [name for name in (*WRONGS, "route_wrongs", "got_through") if figures.get(name)]
    whole = {"routes_tested": "routes", "routes_reached": "routes_described"}
    found += [part for part, all_ in whole.items() if figures.get(part, 0) != figures.get(all_, 0)]
    return found + ["not_fuzzed"] * ("not_fuzzed" in figures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    figures = attack(given.cases, given.seed)
    print(json.dumps(figures))
    for name in (wrong := broken(figures)):
        say(f"broken: {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
