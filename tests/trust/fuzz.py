"""schemathesis against a server's own description, one caller after the other; run by `tests.trust.attack`.

It runs in an environment of its own, with schemathesis and nothing of this project. The orders come as one
JSON object on stdin, and one JSON line on stdout tells of each caller. Parameters that name something are
half of the time replaced by names of things that exist: random ones would never find any.
"""

import json
import random
import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import requests  # type: ignore[import-untyped,unused-ignore]
import schemathesis  # type: ignore[import-not-found]
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import InvalidArgument, Unsatisfiable
from schemathesis.core.failures import FailureGroup  # type: ignore[import-not-found]
from schemathesis.specs.openapi import checks  # type: ignore[import-not-found]

PATIENCE = 20.0
"""Seconds for an answer; more is counted as none."""
STREAM_PATIENCE = 0.3
"""Seconds that a stream is listened to; it never ends by itself."""
ATTEMPTS = 5
"""How often a route without parameters, of which there is one case, is asked again at most."""
SPARED = {"digest": "delete", "name": "delete"}
"""Parameters that are never the name of a thing for this verb, so that callers outlive their own attacks."""
OWN_NAMES = "/v1/secrets/"
"""Things here are called what the caller says: a name of another's, written by oneself, is no leak later."""
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@dataclass
class Told:
    """What one caller found out."""

    caller: str
    cases: int = 0
    by_status: Counter[str] = field(default_factory=Counter)
    reached: set[str] = field(default_factory=set)
    """Routes that answered otherwise than that nobody may ask."""
    wrongs: dict[str, list[str]] = field(
        default_factory=lambda: {"server_errors": [], "schema_breaks": [], "leaks": [], "open_doors": []}
    )

    def note(self, kind: str, text: str) -> None:
        self.wrongs[kind].append(text[:2000])


class Attack:
    """One caller on all routes."""

    def __init__(self, orders: dict[str, Any], caller: dict[str, Any]) -> None:
        self.orders = orders
        self.caller = caller
        self.told = Told(caller["name"])
        self.session = requests.Session()
        self.chance = random.Random(orders["seed"])
        self.mark = re.compile("|".join([orders["mark"], *map(re.escape, orders["ids"])]), re.IGNORECASE)

    def run(self, operations: list[Any]) -> Told:
        for number, operation in enumerate(operations):
            share = self.caller["cases"] * (number + 1) // len(operations) - self.told.cases
            if share > 0:
                self._attack(operation, share)
        return self.told

    def _attack(self, operation: Any, cases: int) -> None:
        """Half of the cases are broken, where there is something to break."""
        positive, negative = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE
        wanted = self.told.cases + cases
        self._generate(operation, negative, cases // 2)
        for _ in range(ATTEMPTS):
            self._generate(operation, positive, wanted - self.told.cases)

    def _generate(self, operation: Any, mode: Any, cases: int) -> None:
        if cases <= 0:
            return
        sent = 0

        @seed(self.chance.getrandbits(32))
        @settings(
            max_examples=cases,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            nonlocal sent
            if sent < cases:  # hypothesis may try more
                sent += 1
                self._send(case)

        with suppress(Unsatisfiable, InvalidArgument):  # nothing can be broken in a route without parameters
            send()

    def _send(self, case: Any) -> None:
        self._name_things(case)
        route = f"{case.operation.method.upper()} {case.operation.path}"
        headers = {"Authorization": f"Bearer {self.caller['token']}"} if self.caller["token"] else {}
        if "stream" in route or (route == "GET /v1/events" and self.chance.random() < 0.3):
            headers["Accept"] = "text/event-stream"
        patience = STREAM_PATIENCE if "Accept" in headers else PATIENCE
        self.told.cases += 1
        try:
            answer = case.call(
                base_url=self.orders["address"], session=self.session, headers=headers, timeout=patience
            )
        except requests.exceptions.Timeout:
            if "Accept" not in headers:
                self.told.note("server_errors", f"no answer in {PATIENCE:g} s: {case.as_curl_command()}")
            return
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            return  # no client sends such a thing
        self._judge(case, route, answer)

    def _name_things(self, case: Any) -> None:
        for place in (case.path_parameters, case.query, case.body):
            for name in place if isinstance(place, dict) else ():
                known = self.orders["known"].get(name)
                spared = SPARED.get(name) == case.operation.method or OWN_NAMES in case.operation.path
                if known and not spared and self.chance.random() < 0.5:
                    place[name] = self.chance.choice(known)

    def _judge(self, case: Any, route: str, answer: Any) -> None:
        told, status = self.told, answer.status_code
        told.by_status[str(status)] += 1
        if status != 401:
            told.reached.add(route)
        if status >= 500:
            told.note("server_errors", f"{status} of {case.as_curl_command()}: {answer.text[:300]}")
        if not self.caller["known"] and status != 401 and route not in self.orders["public"]:
            told.note("open_doors", f"{status} of {case.as_curl_command()}")
        if not self.caller["inside"]:
            self._look_for_leaks(case, answer)
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as error:
            told.note("schema_breaks", f"{route}: {error}")

    def _look_for_leaks(self, case: Any, answer: Any) -> None:
        """What was in the question is no news in the answer."""
        request = answer.request
        asked = f"{request.url} {request.headers} {request.body!r}".lower()
        found = {mark.lower() for mark in self.mark.findall(answer.text)}
        if news := sorted(mark for mark in found if mark not in asked):
            self.told.note("leaks", f"{news} in {answer.status_code} of {case.as_curl_command()}")


def main() -> None:
    orders = json.load(sys.stdin)
    schema = schemathesis.openapi.from_dict(orders["description"])
    operations = [found.ok() for found in schema.get_all_operations()]
    for caller in orders["callers"]:
        told = Attack(orders, caller).run(operations)
        line = {"caller": told.caller, "cases": told.cases, "by_status": told.by_status}
        print(json.dumps({**line, "reached": sorted(told.reached), **told.wrongs}), flush=True)


if __name__ == "__main__":
    main()
