"""Recorded traces: the published ones worked out again by other means, and made-up ones for every reason."""

import csv
import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.recorded_traces import features, misleading_figures, report, traces
from benchmarks.recorded_traces.__main__ import app
from benchmarks.recorded_traces.traces import TraceSet
from grus.model.errors import BadInput

DATA = Path(os.environ.get("GRUS_DATA", "/nowhere")) / "biggan"
published = pytest.mark.skipif(not DATA.is_dir(), reason="GRUS_DATA has no biggan traces")


def column(file: str, name: str) -> list[float]:
    with (DATA / file).open(newline="") as opened:
        return [float(row[name]) for row in csv.DictReader(opened)]


def percentile(values: list[float], part: float) -> float:
    """Between the two nearest samples, as most programs do."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def shown() -> dict[str, Any]:
    done = CliRunner().invoke(app, [str(DATA), "-o", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@published
def test_every_figure_of_the_published_traces_is_that_of_a_recomputation() -> None:
    rows = [row for row in shown()["figures"] if row["part"] == report.WHOLE]
    assert len(rows) == 3 * 3 + 4 + 8 + 2 * 2, "three CPU traces, two and four GPUs, two memories"
    for row in rows:
        values = column(row["file"], row["column"])
        values = [value / 2**20 for value in values] if row["unit"] == "GiB" else values
        assert row["samples"] == len(values)
        assert row["mean"] == pytest.approx(statistics.fmean(values)), row
        assert row["median"] == pytest.approx(statistics.median(values)), row
        assert row["p95"] == pytest.approx(percentile(values, 0.95)), row
        assert (row["least"], row["peak"]) == pytest.approx((min(values), max(values))), row


@published
def test_the_published_traces_cannot_be_compared_and_the_reasons_have_their_figures() -> None:
    made = shown()
    assert made["comparable"] is False
    assert made["period"] == 5.0
    reasons = {one["what"]: one for one in made["objections"]}
    assert reasons["other numbers of GPUs"]["figures"] == {"Satori GPUs used": 2, "OpenShift GPUs used": 1}
    user = column("cpu-with-load-os.csv", "%user")
    busy = [value for value in user if value > 3 * statistics.median(user)]
    load = reasons["hardly any load"]["figures"]
    assert load["samples with a load"] == len(busy)
    assert load["part with a load"] == pytest.approx(len(busy) / len(user))
    assert load["% user, median"] < load["% user, median, cpu-single-os.csv"]
    own = reasons["used memory includes cached files"]["figures"]
    pairs = zip(column("mem-os.csv", "kbmemused"), column("mem-os.csv", "kbcached"), strict=True)
    assert own["OpenShift GiB without cache"] == pytest.approx(
        statistics.median(used - cached for used, cached in pairs) / 2**20
    )
    ties = reasons["memory columns that are not memory"]["figures"]
    use, activity = column("gpu-use-os.csv", "gpu0"), column("gpu-use-os.csv", "mem0")
    assert ties["gpu-use-os.csv gpu0"] == pytest.approx(statistics.correlation(use, activity))
    came_first = reasons["something else came first"]["figures"]
    assert came_first["GiB at the peak"] == pytest.approx(max(column("mem-os.csv", "kbmemused")) / 2**20)


@published
def test_the_published_table_sets_first_samples_beside_means() -> None:
    table = {(one["place"], one["name"]): one["value"] for one in shown()["stated"]}
    first = {name: column("mem-os.csv", name)[0] / 2**20 for name in ("kbavail", "kbmemfree", "kbmemused")}
    assert [round(value) for value in first.values()] == [
        table["OpenShift", "Available"],
        table["OpenShift", "Free"],
        table["OpenShift", "Used"],
    ]
    means = [
        round(statistics.fmean(column("memory-satori.csv", name)) / 2**20)
        for name in ("kbmemfree", "kbmemused")
    ]
    assert means == [table["Satori", "Free"], table["Satori", "Used"]]
    why = next(one["why"] for one in shown()["objections"] if one["what"] == "a table of unlike figures")
    assert "“Available 541” is the first sample of kbavail, also its peak" in why
    assert "“Avail 1145” is the mean of all memory" in why


@published
def test_the_pauses_of_one_place_are_those_that_a_plain_count_finds() -> None:
    first, second = column("gpu-satori.csv", "gpu0"), column("gpu-satori.csv", "gpu1")
    found = traces.read(DATA)
    trace = next(one for one in found.traces if one.file == "gpu-satori.csv")
    start = features.steady_from(trace)
    idle = [a < 1 and b < 1 for a, b in zip(first, second, strict=True)]
    begun = [n for n in range(start, len(idle)) if idle[n] and (n == start or not idle[n - 1])]
    assert [place for place, _ in features.pauses(trace)] == begun
    assert sum(length for _, length in features.pauses(trace)) == sum(idle[start:])


@published
def test_the_page_and_the_table_say_it_too(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, [str(DATA), "--html", str(page)])
    assert done.exit_code == 0
    for words in ("cannot be compared", "not the same work", "82.76"):
        assert words in done.stdout
        assert words in page.read_text()


# ------------------------------------------------------------------------------------------ made-up traces


def written(folder: Path, name: str, header: str, rows: list[str]) -> None:
    (folder / name).write_text("\n".join([header, *rows]) + "\n")


def clock(sample: int) -> str:
    return f"01:{sample * 5 // 60:02}:{sample * 5 % 60:02} PM"


def the_same_twice(folder: Path, count: int = 60) -> None:
    """Two places that did the same, with a step beside every sample, twice."""
    for place in ("a", "b"):
        for run in ("", " single"):
            name = f"{place}{run}".replace(" ", "-")
            cpu = [f"{clock(n)},{n},10,5,85" for n in range(count)]
            written(folder, f"cpu-{name}.csv", "time,id,%user,%system,%idle", cpu)
            gpu = [f"{n},{80 if n > 3 else 0},{30 if n % 2 else 35},{n}" for n in range(count)]
            written(folder, f"gpu-{name}.csv", "id,gpu0,mem0,step", gpu)


def reasons(found: TraceSet) -> set[str]:
    return {one.what for one in misleading_figures.objections(found)}


def test_what_the_samples_do_not_show_is_no_reason(tmp_path: Path) -> None:
    the_same_twice(tmp_path)
    assert reasons(traces.read(tmp_path)) <= {
        "no specifications",
        "whole nodes, not the workload",
        "no common clock",
        "no repeats",
    }


def test_another_number_of_gpus_and_other_pauses_are_reasons(tmp_path: Path) -> None:
    the_same_twice(tmp_path)
    rows = [f"{n},{80 if n % 10 else 0},{80 if n % 10 else 0}" for n in range(60)]
    written(tmp_path, "gpu-b.csv", "id,gpu0,gpu1", rows)
    (tmp_path / "gpu-b-single.csv").unlink()
    found = reasons(traces.read(tmp_path))
    assert {"other numbers of GPUs", "not the same work", "GPU of one run only"} <= found


def test_parts_that_do_not_add_up_and_clocks_that_jump_are_found(tmp_path: Path) -> None:
    the_same_twice(tmp_path)
    cpu = [f"{'12' if n < 5 else '01'}:{n:02}:00 {'PM' if n < 5 else 'AM'},{n},10,5,70" for n in range(60)]
    written(tmp_path, "cpu-b.csv", "time,id,%user,%system,%idle", cpu)
    assert {"columns are missing", "clocks that jump"} <= reasons(traces.read(tmp_path))


def test_gpus_that_did_nothing_are_counted_and_nothing_else_is_said_of_them(tmp_path: Path) -> None:
    the_same_twice(tmp_path)
    for name in ("gpu-b.csv", "gpu-b-single.csv"):
        written(tmp_path, name, "id,gpu0,mem0", [f"{n},0,0" for n in range(60)])
    found = misleading_figures.objections(traces.read(tmp_path))
    assert {one.what: one.figures for one in found}["other numbers of GPUs"] == {
        "a GPUs used": 1.0,
        "b GPUs used": 0.0,
    }
    assert "not the same work" not in {one.what for one in found}
    assert report.sheet(traces.read(tmp_path)).answers


def test_a_trace_without_samples_is_refused_and_other_tables_are_no_traces(tmp_path: Path) -> None:
    written(tmp_path, "people.csv", "name,%idle", ["ada,5"])
    assert not traces.are_in(tmp_path)
    written(tmp_path, "cpu-a.csv", "time,id,%user,%system,%idle", [])
    with pytest.raises(BadInput, match="needs two samples"):
        traces.read(tmp_path)


def test_midnight_is_no_jump_of_the_clock(tmp_path: Path) -> None:
    rows = ["11:59:55 PM,1,1,1,98", "12:00:00 AM,2,1,1,98", "12:00:05 AM,3,1,1,98"]
    written(tmp_path, "cpu-a.csv", "time,id,%user,%system,%idle", rows)
    (trace,) = traces.read(tmp_path).traces
    assert trace.jumps == ()
    assert trace.steps is not None
    assert list(trace.steps) == [5.0, 5.0]


def test_a_load_that_stays_is_no_reason(tmp_path: Path) -> None:
    the_same_twice(tmp_path)
    for name, busy in (("cpu-with-load-a.csv", range(2, 6)), ("cpu-with-load-b.csv", range(60))):
        cpu = [f"{clock(n)},{n},{60 if n in busy else 5},5,{35 if n in busy else 90}" for n in range(60)]
        written(tmp_path, name, "time,id,%user,%system,%idle", cpu)
    found = [
        one for one in misleading_figures.objections(traces.read(tmp_path)) if one.what == "hardly any load"
    ]
    assert [one.figures["samples with a load"] for one in found] == [4.0]


def test_every_bad_line_is_told_with_its_file_and_number(tmp_path: Path) -> None:
    rows = ["01:00:00 PM,1,1,1,98", "noon,2,1,1,98", "01:00:10 PM,3,x,1,98", "01:00:15 PM,4"]
    written(tmp_path, "cpu-a.csv", "time,id,%user,%system,%idle", rows)
    with pytest.raises(BadInput) as caught:
        traces.read(tmp_path)
    assert [(one.field, one.line) for one in caught.value.mistakes] == [("cpu-a.csv", n) for n in (3, 4, 5)]
