"""What strategies are said to take, held against real allocations or, where a CPU has none, arithmetic."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Adam

from benchmarks.memory_models import Decoder, resnet
from benchmarks.memory_truth import real_peak
from grus.estimation.activation_checkpointing import blocks, lighten, rows, shards
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.gpus import find
from grus.estimation.strategy_costs import Strategist, estimate, lightened
from grus.estimation.training_definition import Training
from grus.model.distributed_options import Strategy, parse, together

GPU = find("RTX3060")
VIRTUAL = find("virtual-4GB")


def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]).flatten(0, -2), batch[1])


def sentences(count: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 500, (count, 64)), torch.randint(0, 500, (count * 64,))


def pictures(count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, 48, 48), torch.randint(0, 1000, (count,))


def a_training(model: Callable[[], nn.Module], batch: Callable[[int], object] = pictures) -> Training:
    return Training(model, lambda own: Adam(own, 0.001), batch, loss, size=8)


def decoder() -> Training:
    return a_training(lambda: Decoder(128, 4, 500, 64), sentences)


def a_row() -> nn.Sequential:
    layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())]
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 64), *layers, nn.Linear(64, 1000))


TRAININGS = {
    "decoder": decoder(),
    "resnet": a_training(lambda: resnet((2, 1, 1, 1))),
    "row": a_training(a_row),
}


@pytest.mark.parametrize("words", ["checkpoint", "bf16", "bf16 checkpoint"])
@pytest.mark.parametrize("name", TRAININGS)
def test_a_lighter_model_takes_what_its_trace_says(name: str, words: str) -> None:
    lighter = lightened(TRAININGS[name], parse(words))
    assert trace(lighter).peak == pytest.approx(real_peak(lighter).without_scratch, rel=0.01)


@pytest.mark.parametrize("name", ["decoder", "resnet"])
def test_recomputing_and_half_precision_keep_fewer_activations(name: str) -> None:
    training = replace(TRAININGS[name], size=48)  # enough for the weights' own copies not to matter
    kept = {
        words: _kept(lightened(training, parse(words)))
        for words in ("", "bf16", "checkpoint", "bf16 checkpoint")
    }
    assert kept["checkpoint"] < 0.7 * kept[""]
    assert kept["bf16"] < kept[""]
    assert kept["bf16 checkpoint"] < kept["bf16"]


def _kept(training: Training) -> int:
    """Bytes that the forward pass really leaves behind for the backward pass, the weights left out."""
    model = training.model()
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = training.loss(model, training.batch(training.size))
    del result
    return sum(found.values())


@pytest.mark.parametrize("name", TRAININGS)
def test_what_is_computed_again_is_computed_alike(name: str) -> None:
    """Losses, weights and running statistics after some steps, with dropout, to the bit."""
    results = []
    for words in ("", "checkpoint"):
        torch.manual_seed(1)
        training = TRAININGS[name]
        model = nn.Sequential(training.model(), nn.Dropout(0.1))
        lighten(model[0], parse(words))
        optimizer = training.optimizer(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            training.loss(model, training.batch(4)).backward()
            optimizer.step()
        results.append(model.state_dict())
    for key, value in results[0].items():
        assert torch.equal(value, results[1][key]), key


def test_a_lighter_model_has_the_names_and_the_class_it_had_and_copies_are_their_own() -> None:
    model = decoder().model()
    names = list(model.state_dict())
    lighten(model, parse("bf16 checkpoint"))
    other = copy.deepcopy(model)
    assert list(model.state_dict()) == names
    assert isinstance(model, Decoder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
        batch = sentences(2)[0]
        assert not torch.equal(model(batch), other(batch))
        assert model(batch).dtype is torch.float32


def test_blocks_are_what_a_model_repeats() -> None:
    assert len(blocks(Decoder(128, 4, 500, 64))) == 8  # in each layer, attention and what follows it
    assert len(blocks(resnet((2, 1, 1, 1)))) == 6  # and the stem
    assert blocks(a_row()) == []
    assert len(rows(a_row())) == 1
    assert len(shards(a_row())) == 10
    assert shards(nn.Linear(2, 2)) == []


# ------------------------------------------------------------------------------------- several workers


@pytest.fixture(scope="module")
def strategist() -> Strategist:
    return Strategist(decoder(), VIRTUAL)


def parameters(training: Training) -> int:
    return sum(one.numel() * one.element_size() for one in training.model().parameters())


def test_more_workers_hold_less_each_of_what_is_cut_up(strategist: Strategist) -> None:
    peaks = [strategist.held((Strategy.FSDP,), workers).trace.peak for workers in (2, 4, 8)]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 3


def test_each_of_the_three_cuts_up_more_than_the_one_before(strategist: Strategist) -> None:
    ways = [(Strategy.DDP,), (Strategy.ZERO1,), (Strategy.ZERO2,), (Strategy.FSDP,)]
    peaks = [strategist.held(way, 4).trace.peak for way in ways]
    assert peaks == sorted(peaks, reverse=True)


def test_a_sum_sends_each_byte_twice_and_less_where_it_is_made_smaller(strategist: Strategist) -> None:
    whole = parameters(decoder())
    sent = {way: strategist.held(parse(way), 4).sent for way in ("ddp", "fp16-gradients", "powersgd")}
    assert sent["ddp"] == 2 * whole * 3 // 4
    assert sent["fp16-gradients"] == sent["ddp"] // 2
    assert sent["powersgd"] < sent["ddp"] / 5
    assert Strategist(decoder(), GPU).held(parse("zero2"), 4).sent == sent["ddp"]
    assert strategist.held((), 1).sent == 0


def test_gradients_under_way_are_there_twice(strategist: Strategist) -> None:
    alone, together_ = (strategist.held((), workers).trace.peak for workers in (1, 2))
    assert alone < together_ <= alone + parameters(decoder())


def test_the_optimizer_is_away_only_where_there_is_somewhere_to_go() -> None:
    away, here = (Strategist(decoder(), gpu) for gpu in (GPU, VIRTUAL))
    assert away.held(parse("offload")).trace.peak < away.held(()).trace.peak
    assert away.held(parse("offload")).host == 2 * parameters(decoder())
    assert here.held(parse("offload")).trace.peak == here.held(()).trace.peak


def test_every_way_worth_comparing_has_an_estimate_of_all_its_figures() -> None:
    strategist = Strategist(decoder(), GPU, size=2)
    for way in together(2):
        found = estimate(strategist, way, workers=2)
        assert (found.how, found.size, found.workers) == (way, 2, 2)
        assert found.seconds > 0
        assert found.traffic > 0
        assert found.estimate == found.parts.total <= found.upper
