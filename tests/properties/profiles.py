"""How long the machines run: short and repeatable in `make test`, long and random with GRUS_PROOF=1."""

import os

from hypothesis import HealthCheck, Phase, settings

PROOF = os.environ.get("GRUS_PROOF") == "1"


def profile(examples: int, steps: int = 30) -> settings:
    """So many examples (thirty times as many in a proof), each of at most so many steps (twice)."""
    return settings(
        max_examples=examples * 30 if PROOF else examples,
        stateful_step_count=steps * 2 if PROOF else steps,
        derandomize=not PROOF,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=PROOF,
        # Shrinking takes minutes: a proof does it; `make test` shows the failing history as it was found.
        phases=tuple(Phase) if PROOF else (Phase.explicit, Phase.generate),
    )
