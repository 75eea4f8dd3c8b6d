import copy
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn

from grus.partition.tracing.materialize_tensors import LARGE, build_part, tensors

WIDE = 600
assert 4 * WIDE * WIDE > LARGE


class Odd(nn.Module):
    """What code does when it builds: chance, weights made of others, several names, a second thought."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDE, WIDE)
        self.scaled = nn.Parameter(torch.randn(WIDE, WIDE) * 0.02 + torch.arange(WIDE))
        self.frozen = nn.Parameter(torch.zeros(WIDE, WIDE, dtype=torch.float64).T, requires_grad=False)
        self.same = nn.Linear(WIDE, WIDE)
        self.same.weight = self.first.weight
        self.last = nn.Linear(WIDE, WIDE)
        self.small = nn.Linear(3, 3)
        self.register_buffer("table", torch.arange(WIDE * WIDE).reshape(WIDE, WIDE).sin())
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.5)
        with torch.no_grad():
            self.last.weight.copy_(self.first.weight.T * 2 / self.scaled.abs().max().item())


def ready_made() -> Callable[[], nn.Module]:
    model = Odd()
    return lambda: copy.deepcopy(model)


def whole(make: Callable[[], nn.Module], seed: int) -> dict[str, torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return tensors(make())


@pytest.mark.parametrize("make", [Odd, ready_made()], ids=["built", "ready-made"])
def test_each_tensor_is_what_it_is_in_the_whole_model(make: Callable[[], nn.Module]) -> None:
    expected = whole(make, 3)
    found = build_part(make, expected, 3)
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
        assert found[name].requires_grad == tensor.requires_grad
        assert isinstance(found[name], nn.Parameter) == isinstance(tensor, nn.Parameter)


def test_names_of_one_tensor_stay_names_of_one_tensor() -> None:
    found = build_part(Odd, ["first.weight", "same.weight"], 3)
    assert list(found) == ["first.weight", "same.weight"]
    assert found["first.weight"] is found["same.weight"]


def test_tensors_that_are_no_buffers_are_found_too_and_what_is_missing_is_left_out() -> None:
    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(2, 2))
        model[0].scale = torch.full((2,), 3.0)  # as people do
        return model

    found = build_part(make, ["0.bias", "0.scale", "0.nothing", "0.in_features"], 3)
    assert sorted(found) == ["0.bias", "0.scale"]
    assert found["0.scale"].tolist() == [3.0, 3.0]


def test_the_chance_of_the_caller_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_part(Odd, ["last.bias"], 3)
    assert torch.equal(torch.rand(3), expected)


MANY, SIDE = 24, 1536
LIMITED = f"""
import resource
from torch import nn
from grus.partition.tracing.materialize_tensors import build_part

def make():
    return nn.Sequential(*(nn.Linear({SIDE}, {SIDE}) for _ in range({MANY})))

build_part(lambda: nn.Linear({SIDE}, {SIDE}), ["weight"], 0)  # what the first use takes once and for all
data = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
resource.setrlimit(resource.RLIMIT_DATA, ((data << 10) + 6 * 4 * {SIDE} * {SIDE}, resource.RLIM_INFINITY))
part = build_part(make, ["3.weight", "3.bias"], 0)
print(part["3.weight"].abs().sum().item(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_part_is_built_in_a_fraction_of_the_memory_of_the_whole() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    total, resident = map(float, done.stdout.split())
    assert total > 0
    assert resident * 1024 < MANY * 4 * SIDE * SIDE / 2
