import pytest

from grus.estimation.gpus import CATALOGUE, GIB, find, known, sized, virtual
from grus.model.errors import BadInput


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("RTX3060", "RTX3060"),
        ("rtx 3060", "RTX3060"),
        ("3060", "RTX3060"),
        ("NVIDIA GeForce RTX 3060", "RTX3060"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
    ],
)
def test_a_type_is_found_as_people_and_as_drivers_write_it(written: str, name: str) -> None:
    assert find(written).name == name


def test_every_type_is_found_by_its_own_name() -> None:
    assert [find(kind.name) for kind in CATALOGUE] == list(CATALOGUE)


def test_no_type_claims_more_memory_than_cuda_reports_of_it() -> None:
    reported = {"RTX3060": 12_622_168_064, "T4": 15_843_721_216, "A100": 85_198_045_184}
    for name, memory in reported.items():
        assert find(name).memory == pytest.approx(memory, rel=0.02)


def test_a_memory_is_enough() -> None:
    assert find("24GB").memory == 24 * 10**9
    assert find("6GiB").memory == 6 * GIB
    assert sized(24 * 10**9).flops in {kind.flops for kind in CATALOGUE}


def test_a_virtual_gpu_is_found_by_the_name_that_a_pool_gives_it() -> None:
    assert find("virtual-2GB") == virtual(2 * 10**9)
    assert find("virtual-2GB").room < 2 * 10**9
    assert find("virtual-1MB").room == 0


def test_an_unknown_type_is_answered_with_those_known() -> None:
    with pytest.raises(BadInput, match=r"did you mean RTX3060\?.*24GB.*A100, A100-40GB, L4"):
        find("RTX306")
    assert known("abacus") is None


@pytest.mark.parametrize("written", ["", "24G", "0GB", "virtual-", "virtual-lots", "-3GB"])
def test_what_is_no_type_and_no_memory_is_refused(written: str) -> None:
    with pytest.raises(BadInput):
        find(written)
