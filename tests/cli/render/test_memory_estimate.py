"""What `grus estimate` advises."""

from grus.cli.render.memory_estimate import advice
from grus.estimation.gpus import find
from grus.estimation.memory_breakdown import Parts
from grus.estimation.memory_estimator import Estimate


def an_estimate(seconds: float, *how: str, fits: bool = True) -> Estimate:
    return Estimate(
        gpu=find("RTX3060"),
        size=64,
        how=how,
        workers=2,
        estimate=2_000_000_000,
        upper=3_000_000_000,
        parts=Parts(1, 1, 1, 1),
        seconds=seconds,
        traffic=0,
        fits=fits,
    )


def test_what_computes_the_same_numbers_is_advised_and_what_is_faster_is_named() -> None:
    found = advice([an_estimate(2.0, "ddp"), an_estimate(1.0, "ddp", "powersgd"), an_estimate(3.0, "zero1")])
    assert found.startswith("The fastest that fits: ddp;")
    assert found.endswith("ddp powersgd is faster, with results that are close but not the same.")


def test_what_only_comes_close_is_advised_where_nothing_else_fits() -> None:
    found = advice([an_estimate(2.0, "ddp", fits=False), an_estimate(3.0, "ddp", "bf16")])
    assert found.startswith("The fastest that fits: ddp bf16;")
    assert "faster, with" not in found
