"""Settings of Hypothesis: few, repeatable examples in `make test`; many random ones with GRUS_PROOF=1."""

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


def load() -> None:
    """Make every other test of Hypothesis repeatable too; one that names its number of examples keeps it."""
    common = settings(
        max_examples=1000 if PROOF else 50,
        derandomize=not PROOF,
        database=None,
        deadline=None,  # the time says how busy the machine is
        print_blob=PROOF,
    )
    settings.register_profile("grus", common)
    settings.load_profile("grus")
