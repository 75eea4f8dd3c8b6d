"""A line of the table of trust, and the table as a page has it: docs/reliability.md, between two marks."""

import datetime
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.trust.ledger import ROOT

PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- trust -->", "<!-- end trust -->"


@dataclass(frozen=True, slots=True)
class Line:
    claim: str
    value: object
    aim: str
    verdict: str
    """kept, broken, not audited, not run, or what went wrong."""
    tried: str
    seconds: float


def write(table: Sequence[Line], size: str, page: Path = PAGE) -> None:
    """Put the table in place of the one that is there."""
    text = page.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{in_markdown(table, size)}\n{END}"
    found = re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, text, flags=re.S)
    page.write_text(found, encoding="utf-8")


def in_markdown(table: Sequence[Line], size: str) -> str:
    today = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    machine = f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    command = "make trust WRITE=1" + (" SIZE=long" if size == "long" else "")
    cells = [(line.claim, shown(line.value), line.aim, line.verdict, line.tried) for line in table]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    head = ["| promise | figure | aim | verdict | tried |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([f"{today} · {machine} · `{command}`", "", *head, *rows])


def shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
