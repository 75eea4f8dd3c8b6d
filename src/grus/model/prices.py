"""Prices of the pool, as its owners set them. No price is guessed: without a price there are no costs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices; None where no price is set."""

    currency: str = ""
    gpu_hour: float | None = None
    """Price of a GPU-hour of a type without a price of its own; excludes energy if `kwh` is given."""
    types: tuple[tuple[str, float], ...] = ()
    """Price of a GPU-hour of each type."""
    kwh: float | None = None

    def of(self, kind: str) -> float | None:
        """Return the price of a GPU-hour of that type."""
        return dict(self.types).get(kind, self.gpu_hour)


NO_PRICES = Prices()
