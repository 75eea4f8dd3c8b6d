"""What the pool costs, as its owners say it. Nothing is guessed: without a price there are no costs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """None where nothing is said."""

    currency: str = ""
    gpu_hour: float | None = None
    """Of a GPU of a type without a price of its own, energy left out if `kwh` is given."""
    types: tuple[tuple[str, float], ...] = ()
    """Of a GPU-hour of each type."""
    kwh: float | None = None

    def of(self, kind: str) -> float | None:
        """Of a GPU-hour of that type."""
        return dict(self.types).get(kind, self.gpu_hour)


NO_PRICES = Prices()
