import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grus.model.resources import GPU, Range
from grus.model.texts.units import (
    GpuAsk,
    gpu_number,
    parse_bytes,
    parse_gpu,
    parse_percent,
    parse_range,
    parse_seconds,
    render_bytes,
    render_bytes_short,
    render_gpu,
    render_percent,
    render_seconds,
)

types = st.lists(st.sampled_from(["A100", "H100", "RTX 4090", "V100-SXM2"]), unique=True, max_size=3).map(
    tuple
)
ranges = st.tuples(st.integers(1, 16_384), st.integers(1, 16_384)).map(
    lambda pair: Range(min(pair), max(pair))
)
asks = (
    st.builds(GpuAsk, count=ranges, types=types)
    | st.builds(GpuAsk, share=st.integers(GPU // 100, GPU - 1), types=types)
    | st.builds(GpuAsk, memory=st.integers(1, 2**59), types=types)
    | st.builds(GpuAsk, types=types, auto=st.just(True))
)
anything = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.from_regex(r"[0-9A-Za-z.:|% -]{0,12}")
)


@pytest.mark.parametrize(
    ("written", "ask"),
    [
        (4, GpuAsk(Range(4, 4))),
        ("4", GpuAsk(Range(4, 4))),
        (0, GpuAsk(Range(0, 0))),
        (1.0, GpuAsk(Range(1, 1))),
        ("2..8", GpuAsk(Range(2, 8))),
        ("3..3", GpuAsk(Range(3, 3))),
        (0.5, GpuAsk(share=500_000)),
        ("0.25", GpuAsk(share=250_000)),
        (".5", GpuAsk(share=500_000)),
        ("12GB", GpuAsk(memory=12 * 10**9)),
        ("12 GiB", GpuAsk(memory=12 * 2**30)),
        ("A100:2..8", GpuAsk(Range(2, 8), types=("A100",))),
        ("A100|H100:4", GpuAsk(Range(4, 4), types=("A100", "H100"))),
        ("A100:0.5", GpuAsk(share=500_000, types=("A100",))),
        ("auto", GpuAsk(auto=True)),
        ("A100:Auto", GpuAsk(types=("A100",), auto=True)),
        ("H100:10GB", GpuAsk(memory=10**10, types=("H100",))),
    ],
)
def test_gpus_as_people_write_them(written: object, ask: GpuAsk) -> None:
    assert parse_gpu(written) == ask


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("any:auto", "leave out"),
        ("any:4", "leave out"),
        ("A100|A100:2", "twice"),
        ("A100:0", "cannot name a GPU type"),
        ("100:4", "GPU type"),
        (0.001, "at least 0.01"),
        (float("nan"), "write a number"),
        (float("inf"), "write a number"),
        (True, "write a number"),
        ("0GB", "above zero"),
    ],
)
def test_gpus_that_are_refused(written: object, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse_gpu(written)


@given(asks)
def test_a_request_for_gpus_survives_being_written_and_read(ask: GpuAsk) -> None:
    assert parse_gpu(render_gpu(ask)) == ask


@pytest.mark.parametrize(
    ("written", "amount"),
    [("12GB", 12 * 10**9), ("12GiB", 12 * 2**30), ("1.5gb", 1_500_000_000), ("100 MB", 10**8), ("7B", 7)],
)
def test_gb_is_decimal_and_gib_is_binary(written: str, amount: int) -> None:
    assert parse_bytes(written) == amount


@pytest.mark.parametrize(
    "written", [12, "12", "12G", "12Gi", "GB", "-1GB", "1e3GB", "12XB", "", 1.5, None, "٣GB"]
)
def test_bytes_without_a_clear_unit_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"unit|write"):
        parse_bytes(written)


@given(st.integers(0, 2**60 - 1))
def test_bytes_survive_being_written_and_read(amount: int) -> None:
    assert parse_bytes(render_bytes(amount)) == amount


@given(st.integers(0, 2**59))
def test_short_bytes_are_near_the_truth(amount: int) -> None:
    assert parse_bytes(render_bytes_short(amount)) == pytest.approx(amount, rel=0.06)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30m", 1800),
        ("3d", 259_200),
        ("120s", 120),
        (120, 120),
        (0.5, 0.5),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2w", 1_209_600),
    ],
)
def test_lengths_of_time(written: object, seconds: float) -> None:
    assert parse_seconds(written) == seconds


@pytest.mark.parametrize(
    "written", ["12:30", "30", "m30", "30m1h", "1m1m", "-5s", -5, "5 minutes", True, None, float("nan"), ""]
)
def test_lengths_of_time_that_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"length of time|seconds"):
        parse_seconds(written)


@given(st.integers(0, 10**14))
def test_seconds_survive_being_written_and_read(microseconds: int) -> None:
    seconds = microseconds / 1_000_000
    assert parse_seconds(render_seconds(seconds)) == pytest.approx(seconds, abs=1e-6)


@given(st.integers(0, 1_000_000))
def test_percentages_survive_being_written_and_read(millionths: int) -> None:
    part = millionths / 1_000_000
    assert parse_percent(render_percent(part)) == pytest.approx(part, abs=1e-9)


@given(ranges)
def test_ranges_survive_being_written_and_read(size: Range) -> None:
    assert parse_range(str(size)) == size


@given(anything)
def test_no_parser_fails_in_any_other_way_than_with_its_rule(value: object) -> None:
    for parse in (parse_gpu, parse_bytes, parse_seconds, parse_percent, parse_range):
        with contextlib.suppress(ValueError):
            parse(value)


def test_a_whole_number_of_gpus_is_a_whole_number() -> None:
    assert repr(gpu_number(2 * GPU)) == "2"
    assert repr(gpu_number(GPU // 2)) == "0.5"
