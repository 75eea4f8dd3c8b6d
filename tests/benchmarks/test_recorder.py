"""The recorder's benchmark: it checks what it has written, and it tells what it took."""

from pathlib import Path

import numpy as np

from benchmarks.recorder import run, use


def test_a_small_run_gives_all_figures_and_reads_everything_again(tmp_path: Path) -> None:
    figures = run(3, 700, tmp_path)
    assert (figures["series"], figures["values"]) == (12, 12 * 700)
    size, share = figures["mb_on_disk"], figures["cpu_share"]
    assert isinstance(size, float)
    assert isinstance(share, float)
    assert 0 < size < 5
    assert 0 < share < 1


def test_the_same_seed_gives_the_same_samples() -> None:
    one, two = (use(5, 50, np.random.default_rng(6)) for _ in range(2))
    assert all((one[measure] == two[measure]).all() for measure in one)
