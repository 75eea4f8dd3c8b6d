"""An optimizer whose work is done elsewhere does the same work; words that cannot be followed are named."""

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import grus
from grus.elastic.run import Run
from grus.elastic.training_state.optimizer_parameters import (
    DirectParameters,
    HostParameters,
    OptimizerParameters,
)
from grus.model.errors import BadInput


def a_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))


def steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, standins: OptimizerParameters, count: int = 3
) -> None:
    chance = torch.Generator().manual_seed(3)
    for _ in range(count):
        model(torch.randn(4, 6, generator=chance)).square().mean().backward()
        standins.before()
        optimizer.step()
        standins.after()
        for parameter in model.parameters():
            parameter.grad = None


def test_copies_on_the_host_are_updated_as_the_model_itself_would_be() -> None:
    results = []
    for kind in (DirectParameters, HostParameters):
        model = a_model()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        rate = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        standins = kind(optimizer)
        steps(model, optimizer, standins)
        rate.step()
        steps(model, optimizer, standins)
        results.append(model.state_dict())
    for key, value in results[0].items():
        assert torch.equal(value, results[1][key])


def test_nothing_that_the_optimizer_holds_is_the_models_and_gradients_go_before_the_step() -> None:
    model = a_model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    standins = HostParameters(optimizer)
    own = {parameter.data_ptr() for parameter in model.parameters()}
    model(torch.randn(4, 6)).square().mean().backward()
    standins.before()
    assert all(parameter.grad is None for parameter in model.parameters())
    optimizer.step()
    standins.after()
    held = [one for group in optimizer.param_groups for one in group["params"]]
    assert len(held) == len(own)
    assert all(one.grad is None for one in held)
    assert not own & {one.data_ptr() for one in held}
    assert {id(one) for one in optimizer.state} == {id(one) for one in held}


def test_a_model_that_was_loaded_is_what_the_host_goes_on_from() -> None:
    model, other = a_model(), a_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    standins = HostParameters(optimizer)
    with torch.no_grad():
        for parameter in (*model.parameters(), *other.parameters()):
            parameter.fill_(0.25)
    standins.refresh()
    steps(model, optimizer, standins)
    plain = torch.optim.SGD(other.parameters(), 0.1)
    steps(other, plain, DirectParameters(plain))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


# ------------------------------------------------------------------------------------------------ words


def train(strategy: str | None = None) -> Run:
    model = a_model()
    data = TensorDataset(torch.randn(8, 6), torch.randn(8, 2))
    made = torch.optim.SGD(model.parameters(), 0.1)
    return grus.train(model, made, data, global_batch=4, epochs=1, strategy=strategy)


def test_a_run_without_a_word_follows_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRUS_STRATEGY", "bf16")
    assert "Lowered" in type(train().model).__name__
    assert "Lowered" not in type(train("plain").model).__name__


@pytest.mark.parametrize(
    ("strategy", "options", "said"),
    [
        ("fp32", {}, "is no strategy"),
        ("fsdp ddp", {}, "say one of them"),
        ("split", {}, "grus split"),
        ("powersgd", {"scaler": torch.amp.GradScaler("cpu")}, "takes no scaler"),
        ("offload", {"scaler": torch.amp.GradScaler("cpu")}, "takes no scaler"),
        ("powersgd", {"global_batch": (4, 8)}, "fixed global_batch"),
        ("fsdp", {"global_batch": (4, 8)}, "fixed global_batch"),
        ("fsdp", {"also": {"copy": nn.Linear(1, 1)}}, "nothing in `also`"),
    ],
)
def test_what_a_run_cannot_follow_is_named(strategy: str, options: dict[str, object], said: str) -> None:
    model = a_model()
    data = TensorDataset(torch.randn(8, 6), torch.randn(8, 2))
    made = torch.optim.SGD(model.parameters(), 0.1)
    given: dict[str, object] = {"global_batch": 4, "epochs": 1, "strategy": strategy, **options}
    with pytest.raises(BadInput, match=said):
        grus.train(model, made, data, **given)  # type: ignore[arg-type]  # some of them are wrong on purpose


def test_parts_need_an_optimizer_of_the_model_alone() -> None:
    model, other = a_model(), nn.Linear(2, 2)
    made = torch.optim.SGD([*model.parameters(), *other.parameters()], 0.1)
    data = TensorDataset(torch.randn(8, 6), torch.randn(8, 2))
    with pytest.raises(BadInput, match="own parameters"):
        grus.train(model, made, data, global_batch=4, epochs=1, strategy="zero1")
