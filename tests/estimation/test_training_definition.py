from typing import Any

import torch
from torch import nn

from grus.estimation.training_definition import of_data, of_example, of_optimizer, samples


def test_a_batch_of_another_size_has_the_samples_of_the_example_over_and_over() -> None:
    inputs, targets, scale = torch.arange(6).reshape(3, 2), torch.arange(3), torch.tensor(0.5)
    made = of_example({"x": inputs, "y": (targets, scale), "name": "words"})(7)
    assert made["y"][0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert made["x"].shape == (7, 2)
    assert (made["y"][1], made["name"]) == (scale, "words")


def test_flat_tensors_with_several_entries_a_sample_grow_and_tables_stay() -> None:
    words, flat, mask = torch.zeros(2, 8), torch.zeros(16), torch.zeros(8, 8)
    made = of_example((words, flat, mask))(3)
    assert [len(value) for value in made] == [3, 24, 8]


def test_samples_are_the_first_dimension_of_the_first_tensor() -> None:
    assert samples({"scale": torch.tensor(1.0), "x": torch.zeros(5, 2)}) == 5
    assert samples(["nothing"]) == 0


def test_small_data_is_taken_over_and_over() -> None:
    assert of_data([torch.tensor(1), torch.tensor(2)])(3).tolist() == [1, 2, 1]


def test_an_optimizer_for_a_copy_keeps_its_groups_and_settings() -> None:
    model, other = nn.Linear(4, 2), nn.Linear(4, 2)
    groups: list[dict[str, Any]] = [{"params": [model.bias], "lr": 0.5}, {"params": [model.weight]}]
    given = torch.optim.AdamW(groups, lr=0.1)
    anew = of_optimizer(given, model)
    assert anew is not None
    made = anew(other.parameters())
    assert [group["lr"] for group in made.param_groups] == [0.5, 0.1]
    assert made.param_groups[0]["params"][0] is other.bias
    assert given.param_groups[0]["params"][0] is model.bias
    other(torch.ones(1, 4)).sum().backward()
    before = other.weight.clone()
    made.step()
    assert not torch.equal(other.weight, before)
    assert not given.state


def test_an_optimizer_of_another_model_has_no_copy() -> None:
    assert of_optimizer(torch.optim.SGD(nn.Linear(4, 2).parameters()), nn.Linear(4, 2)) is None
