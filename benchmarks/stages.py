"""From an empty folder to a model that answers, in stages: how long it takes, and how long a second time.

    python -m benchmarks.stages

A real server with two pretended GPUs runs examples/stages as people would: prepare → statistics → train
(elastic) → evaluate → export → serve, on CPUs, with real processes. It is timed from the submission until the
served model has answered a request. Then the same file is submitted again, and once more after a change of
the evaluation's code. The last line is one JSON object.
"""

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.grus_server import GrusServer
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.model.errors import BadInput, GrusError
from grus.sdk.client import Client

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "stages"
POOL = "1x2x16GB"
PATIENCE = 300.0
"""Seconds after which nothing good can come."""
PAUSE = 0.1
"""Seconds between two questions to a model that is not up yet."""


@dataclass(frozen=True, slots=True)
class Round:
    """One submission of the file."""

    exported: float
    """Seconds until the last stage before the serving one had ended."""
    answered: float
    """Seconds until the served model has answered."""
    took_over: tuple[str, ...]
    """Stages that did not run, because nothing had changed."""
    ran: tuple[str, ...]
    chances: tuple[float, ...]
    """What the model said."""


def submitted(client: Client, folder: Path) -> Round:
    began = time.perf_counter()
    jobs = parse_job_file((folder / "stages.yaml").read_bytes(), folder=str(folder))
    *stages, serve = client.submit_stages(jobs)
    ended = [stage.wait() for stage in stages]
    if failed := [f"{job.name}: {job.reason}" for job in ended if job.phase != "succeeded"]:
        raise RuntimeError("; ".join(failed))
    exported = time.perf_counter() - began
    chances = answer(client, serve.id, began + PATIENCE)
    answered = time.perf_counter() - began
    serve.stop()
    return Round(
        exported,
        answered,
        tuple(job.name for job in ended if job.same_as),
        tuple(job.name for job in ended if not job.same_as),
        chances,
    )


def answer(client: Client, job: str, until: float) -> tuple[float, ...]:
    while True:
        try:
            (chances,) = client.predict(job, [[[[7.0] * 12] * 12]])  # one picture of one channel
            return tuple(chances)
        except BadInput:
            raise
        except GrusError as error:  # it is not up yet
            if time.perf_counter() > until:
                raise RuntimeError(f"the model does not answer: {error}") from error
            time.sleep(PAUSE)


def main() -> None:
    # Its stages run `python` by the PATH of who submits them: as from an activated environment.
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with GrusServer(POOL) as server, Client(server.address, server.token) as client:
        folder = server.root / "work"
        shutil.copytree(EXAMPLE, folder)
        first = submitted(client, folder)
        print(f"first: {first.answered:.1f} s until it answers, {', '.join(first.ran)} ran", flush=True)
        second = submitted(client, folder)
        print(f"second: {second.answered:.1f} s, {', '.join(second.took_over)} taken over", flush=True)
        evaluate = folder / "evaluate.py"
        evaluate.write_text(evaluate.read_text().replace("GOOD_ENOUGH = 0.9", "GOOD_ENOUGH = 0.8"))
        third = submitted(client, folder)
        print(f"other evaluation: {third.answered:.1f} s, {', '.join(third.ran)} ran", flush=True)
    figures = {
        "seconds_to_served": round(first.answered, 1),
        "seconds_to_exported": round(first.exported, 1),
        "again_seconds_to_served": round(second.answered, 1),
        "again_seconds_to_exported": round(second.exported, 2),
        "again_taken_over": len(second.took_over),
        "again_run": len(second.ran),
        "same_answer": first.chances == second.chances,
        "changed_evaluation_run": ", ".join(third.ran),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
