"""A batch that follows the gradients' noise ends where the fixed one does, on the image example."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

import grus
from grus.elastic.data.adaptive_batch_size import BatchSizer

EXAMPLE = Path(__file__).parents[2] / "examples" / "images.py"
TOLERANCE = 0.05
"""Of the final loss on pictures never seen, which starts at 2.3 and ends near 0.1: a larger batch takes fewer
steps and other ones, so that the weights differ, but not how good they are."""


@pytest.fixture(scope="module")
def images() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_images", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trained(images: ModuleType, batch: int | tuple[int, int]) -> tuple[float, list[int]]:
    """The final loss on other pictures, and the batch of each step."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = images.network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
    run = grus.train(
        model,
        optimizer,
        images.pictures(4096, seed=1),
        global_batch=batch,
        micro_batch=32,
        epochs=6,
        scheduler=scheduler,
        scheduler_per="epoch",
    )
    batches = []
    for x, y in run:
        size = run.global_batch
        if run.step(F.cross_entropy(run.model(x), y)) is not None:
            batches.append(size)
    return images.evaluate(run)[0], batches


def test_the_final_loss_is_that_of_the_fixed_batch(
    images: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A larger batch saves no time on one CPU: an exchange as long as thirty micro-batches is pretended."""
    fixed, steady = trained(images, 128)
    measured = BatchSizer.timed
    monkeypatch.setattr(
        BatchSizer, "timed", lambda sizer, micros, _: measured(sizer, micros, 0.01 * (30 + micros))
    )
    adaptive, batches = trained(images, (128, 512))
    assert set(steady) == {128}
    assert max(batches) >= 256
    assert all(128 <= batch <= 512 and batch % 32 == 0 for batch in batches)
    assert len(batches) < len(steady)
    assert adaptive == pytest.approx(fixed, abs=TOLERANCE)
