"""The command: one line an event, JSON at the end, exit code 0 if all of it holds."""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch

from grus.elastic import audit
from grus.elastic.selftest.conductor import Conductor, Failed
from grus.elastic.selftest.events import Check, SelftestRun, judged, undisturbed
from grus.elastic.selftest.program import EPOCHS, SAMPLES


def main(arguments: list[str]) -> int:
    options = argparse.ArgumentParser(prog="python -m grus.elastic.selftest", description=__doc__)
    options.add_argument("--backend", default="nccl" if torch.cuda.is_available() else "gloo")
    options.add_argument("--workers", type=int, help="default: one a GPU, 2 without GPUs")
    chosen = options.parse_args(arguments)
    gpus = torch.cuda.is_available()
    if chosen.backend == "nccl" and torch.cuda.device_count() < 2:
        options.error(f"nccl needs two GPUs or more; here are {torch.cuda.device_count()}")
    count = chosen.workers or (torch.cuda.device_count() if gpus else 2)
    if count < 2 or (chosen.backend == "nccl" and count > torch.cuda.device_count()):
        options.error("there must be two workers or more, and no more than GPUs")
    with tempfile.TemporaryDirectory(prefix="grus-selftest-") as folder:
        checks = _play(Path(folder), chosen.backend, count, gpus=gpus)
    ok = all(check.ok for check in checks)
    told = {"ok": ok, "backend": chosen.backend, "workers": count, "torch": torch.__version__}
    told |= {"gpu": torch.cuda.get_device_name(0)} if gpus else {}
    _say(json.dumps({**told, "checks": [asdict(check) for check in checks]}))
    return 0 if ok else 1


def _play(folder: Path, backend: str, count: int, *, gpus: bool) -> list[Check]:
    """Run event by event; stop after a failure, since the rest would show nothing new."""
    checks: list[Check] = []
    reference: dict[int, float] = {}

    def alone() -> str:
        reference.update(undisturbed(folder / "alone", backend, gpus=gpus))
        return f"{len(reference)} steps undisturbed: what the rest is held against"

    with Conductor(folder / "story", backend, gpus=gpus) as run:
        story = SelftestRun(run, list(range(count)), reference)
        for name, event in [("alone", alone), *story.tell(), ("data", lambda: _exact(run.folder / "audit"))]:
            check = judged(story, name, event)
            checks.append(check)
            _say(f"{'ok  ' if check.ok else 'FAIL'} {name:15}{check.seconds:7.2f} s   {check.detail}")
            if not check.ok:
                break
    return checks


def _exact(folder: Path) -> str:
    found = audit.check(folder, samples=SAMPLES, epochs=EPOCHS)
    if found.wrong:
        raise Failed("; ".join(found.wrong[:3]))
    return f"each of {SAMPLES} samples exactly once in each of {EPOCHS} epochs"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
