"""Bad input of `grus simulate`: each mistake is named with its line, all at once; nothing is half-done."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grus.cli.main import app

GOOD = "submit,duration,gpus,queue\n0,600,1,vision\n60,600,2,speech\n"
POOL = ("--nodes", "1x8xA100")
HEAD = "submit,duration,gpus\n"


@dataclass(frozen=True)
class Bad:
    """An input, and what must be said of it: (line, field, words), in the order of the output."""

    name: str
    told: tuple[tuple[int | None, str, str], ...]
    csv: str | bytes = GOOD
    words: tuple[str, ...] = POOL
    files: dict[str, str] = field(default_factory=dict)


def one(name: str, field: str, rule: str, *, line: int | None = None, **more: object) -> Bad:
    return Bad(name, ((line, field, rule),), **more)  # type: ignore[arg-type]  # the fields of Bad


ROWS = [
    # ---------------------------------------------------------------------------------------------- lines
    one("a line with too few cells", "line", "must have 3 cells", line=3, csv=HEAD + "0,1,1\n0,1\n"),
    one("a line with too many cells", "line", "must have 3 cells", line=2, csv=HEAD + "0,1,1,1\n"),
    one("a quote that never closes", "line", "is not CSV", line=3, csv=HEAD + '0,1,1\n0,"1,1\n0,1,1\n'),
    one("text after a quote", "line", "is not CSV", line=2, csv=HEAD + '0,"1"x,1\n1,1,1\n'),
    one("a byte of zero", "gpus", "whole number of GPUs", line=2, csv=HEAD + "0,1,\x001\n"),
    one("a negative duration", "duration", "above zero", line=2, csv=HEAD + "0,-5,1\n"),
    one("no duration", "duration", "above zero", line=2, csv=HEAD + "0,,1\n"),
    one("a duration for ever", "duration", "above zero", line=2, csv=HEAD + "0,inf,1\n"),
    one("a duration that is no number", "duration", "above zero", line=2, csv=HEAD + "0,nan,1\n"),
    one("a duration in words", "duration", "above zero", line=2, csv=HEAD + "0,long,1\n"),
    one("a time that is none", "submit", "must be a time", line=2, csv=HEAD + "soon,1,1\n"),
    one("a month that is none", "submit", "must be a time", line=2, csv=HEAD + "2026-13-01 00:00,1,1\n"),
    one("no GPUs", "gpus", "whole number of GPUs", line=2, csv=HEAD + "0,1,0\n"),
    one("fewer than no GPUs", "gpus", "whole number of GPUs", line=2, csv=HEAD + "0,1,-1\n"),
    one("one and a half GPUs", "gpus", "whole number of GPUs", line=2, csv=HEAD + "0,1,1.5\n"),
    one("a job larger than the cluster", "gpus", "could ever give", line=3, csv=HEAD + "0,1,8\n0,1,9\n"),
    one("min above max", "min", "at most max", line=2, csv="submit,duration,gpus,min,max\n0,1,4,6,3\n"),
    one("an elastic slice", "gpus", "must be whole", line=2, csv="submit,duration,gpus,max\n0,1,0.5,2\n"),
    one("a type unheard of", "type", "one of train, dev", line=2, csv="submit,duration,gpus,type\n0,1,1,x\n"),
    one(
        "a priority too high",
        "priority",
        "0 to 1000",
        line=2,
        csv="submit,duration,gpus,priority\n0,1,1,1e9\n",
    ),
    one(
        "a queue's name too long",
        "queue",
        "63 printable",
        line=2,
        csv=f"submit,duration,gpus,queue\n0,1,1,{'q' * 64}\n",
    ),
    one(
        "a negative checkpoint",
        "checkpoint",
        "above zero",
        line=2,
        csv="submit,duration,gpus,checkpoint\n0,1,1,-1\n",
    ),
    one(
        "a dev job beyond the pool",
        "gpus",
        "at least 9 GPUs, and there are 8",
        line=2,
        csv="submit,duration,gpus,type\n0,1,9,dev\n",
    ),
    Bad(
        "many mistakes of many lines",
        (
            (2, "duration", "above zero"),
            (3, "gpus", "whole"),
            (4, "line", "3 cells"),
            (5, "submit", "a time"),
        ),
        csv=HEAD + "0,-1,1\n0,1,x\n0,1\n?,1,1\n0,1,1\n",
    ),
    Bad(
        "a broken line and a job larger than the cluster",
        ((2, "duration", "above zero"), (3, "gpus", "could ever give"), (4, "line", "3 cells")),
        csv=HEAD + "0,-1,1\n0,1,99\n0,1\n",
    ),
    # -------------------------------------------------------------------------------------------- headings
    one("nothing at all", "file", "is empty", line=1, csv=""),
    one("a heading alone", "file", "has no jobs", line=1, csv=HEAD),
    one(
        "an unknown column",
        "heading",
        "unknown column",
        line=1,
        csv="submit,duration,gpus,colour\n0,1,1,red\n",
    ),
    one("a column missing", "heading", "must name the column gpus", line=1, csv="submit,duration\n0,1\n"),
    one("a column twice", "heading", "a column twice", line=1, csv="submit,duration,gpus,gpus\n0,1,1,1\n"),
    one("no text", "trace", "not text in UTF-8", csv=b"\xff\xfe\x00submit"),
    one(
        "Philly with a broken number",
        "duration",
        "above zero",
        line=2,
        csv="timestamp,duration,num_gpus\n0,-1,1\n",
    ),
    one(
        "Philly with half a GPU",
        "num_gpus",
        "whole number",
        line=2,
        csv="timestamp,duration,num_gpus\n0,1,0.5\n",
    ),
    one(
        "Pollux without measurements",
        "application",
        "has no measurements",
        line=2,
        csv="name,time,application,num_replicas,batch_size\nx,0,bert,1,12\n",
    ),
    one(
        "Pollux with a column missing",
        "heading",
        "must name the column batch_size",
        line=1,
        csv="name,time,application,num_replicas\nx,0,bert,1\n",
    ),
    # -------------------------------------------------------------------------------------------- what if
    one("a what-if that empties the pool", "remove", "leaves no node", words=(*POOL, "--remove", "node-0")),
    one("a node that is not there", "remove", "names no node", words=(*POOL, "--remove", "node-7")),
    one("nodes that cannot be read", "add-nodes", "nodes x GPUs x type", words=(*POOL, "--add-nodes", "8")),
    one("a quota for nobody", "quota", "names no queue", words=(*POOL, "--quota", "audio=2")),
    one("a quota without a number", "quota", "such as vision=12", words=(*POOL, "--quota", "vision")),
    one("a quota above the pool", "quota", "0 to the pool's 8", words=(*POOL, "--quota", "vision=99")),
    one("a quota that is no number", "quota", "0 to the pool's 8", words=(*POOL, "--quota", "vision=nan")),
    one("no load", "load", "above 0", words=(*POOL, "--load", "0")),
    one("a policy unheard of", "policy", "must be one of", words=(*POOL, "--policy", "luck")),
    one(
        "a job too large without a node",
        "gpus",
        "without node-1 it asks for more",
        line=2,
        csv=HEAD + "0,1,12\n0,1,1\n",
        words=("--nodes", "2x8xA100", "--remove", "node-1"),
    ),
    # ------------------------------------------------------------------------------------------- options
    one("no pool", "nodes", "say which GPUs", words=()),
    one("a pool that is none", "nodes", "nodes x GPUs x type", words=("--nodes", "many")),
    one("a pool without a GPU", "nodes", "at least one", words=("--nodes", "1x0xA100")),
    one("faults every second", "faults", "at least a minute", words=(*POOL, "--faults", "1s")),
    one("faults in words", "faults", "", words=(*POOL, "--faults", "often")),
    one("queues of no file", "queues", "cannot be read", words=(*POOL, "--queues", "none.toml")),
    one(
        "queues that are no TOML",
        "queues",
        "is not TOML",
        words=(*POOL, "--queues", "q.toml"),
        files={"q.toml": "[queues"},
    ),
    one(
        "quotas above the pool",
        "queues",
        "sum to 9",
        words=(*POOL, "--queues", "q.toml"),
        files={"q.toml": "[queues.vision]\nquota = 5\n[queues.speech]\nquota = 4\n"},
    ),
    one(
        "a queue that is not configured",
        "gpus",
        "its queue speech is not configured",
        line=3,
        words=(*POOL, "--queues", "q.toml"),
        files={"q.toml": "[queues.vision]\nquota = 5\n"},
    ),
    one("a page in no folder", "html", "in a folder that is there", words=(*POOL, "--html", "no/out.html")),
    one(
        "no folder of measurements", "applications", "names no folder", words=(*POOL, "--applications", "no")
    ),
    Bad(
        "mistakes of the file, the pool and the what-if at once",
        (
            (None, "load", "above 0"),
            (None, "faults", "a minute"),
            (2, "duration", "above zero"),
            (None, "remove", "no node"),
        ),
        csv=HEAD + "0,-1,1\n",
        words=(*POOL, "--load", "-1", "--faults", "1s", "--remove", "node-5"),
    ),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("bad", ROWS, ids=lambda bad: bad.name)
def test_every_mistake_is_named_with_its_line_and_no_page_is_written(bad: Bad, folder: Path) -> None:
    trace = folder / "jobs.csv"
    trace.write_bytes(bad.csv if isinstance(bad.csv, bytes) else bad.csv.encode())
    for name, text in bad.files.items():
        (folder / name).write_text(text)
    before = sorted(folder.rglob("*"))
    words = bad.words if "--html" in bad.words else (*bad.words, "--html", "out.html")
    done = CliRunner().invoke(app, ["simulate", str(trace), *words, "-o", "json"])
    assert done.exit_code == 2, done.stdout + done.stderr
    assert done.stdout == ""
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    found = [(one["line"], one["field"], one["rule"]) for one in error["mistakes"]]
    assert len(found) == len(bad.told), found
    for (line, name, rule), (told_line, told_name, told) in zip(found, bad.told, strict=True):
        assert (line, name.split(".")[-1]) == (told_line, told_name), found
        assert told in rule
    assert sorted(folder.rglob("*")) == before


def test_the_table_of_bad_input_is_long() -> None:
    assert len(ROWS) >= 50
    assert len({bad.name for bad in ROWS}) == len(ROWS)


def test_the_good_input_that_the_bad_ones_vary_is_good(folder: Path) -> None:
    (folder / "jobs.csv").write_text(GOOD)
    done = CliRunner().invoke(app, ["simulate", "jobs.csv", *POOL, "--html", "out.html"])
    assert done.exit_code == 0, done.stderr
    assert (folder / "out.html").stat().st_size > 4_000_000
    assert sorted(path.name for path in folder.iterdir()) == ["jobs.csv", "out.html"]


def test_people_see_each_mistake_on_a_line_of_its_own(folder: Path) -> None:
    (folder / "jobs.csv").write_text(HEAD + "0,-1,1\n0,1\n")
    done = CliRunner().invoke(app, ["simulate", "jobs.csv", *POOL, "--load", "-1"])
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: 3 mistakes")
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["load", "line 2", "line 3"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "give one of a CSV file"),
        (("jobs.csv", "--synthetic", ""), "give one of a CSV file"),
        (("nowhere.csv",), "cannot be read"),
        (("--synthetic", "days=0"), "above 0"),
        (("--synthetic", "jobs=-1,colour=red"), "2 mistakes"),
        (("--synthetic", "queues=a:a"), "different names"),
        (("--replay", "nowhere.jsonl"), "cannot be read"),
        (("--replay", "jobs.csv"), "line 1: record: is not a record of decisions"),
    ],
)
def test_sources_that_are_none(words: tuple[str, ...], told: str, folder: Path) -> None:
    (folder / "jobs.csv").write_text(GOOD)
    done = CliRunner().invoke(app, ["simulate", *words, *POOL])
    assert done.exit_code == 2
    assert told in done.stderr
    assert done.stdout == ""
