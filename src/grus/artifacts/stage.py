"""Wrapper around a job's program, for jobs with inputs or outputs:

    python -m grus.artifacts.stage '{"vault": …, "inputs": …, "outputs": …}' -- argv…

It fetches the inputs, makes folders for the outputs, runs the job's program, and stores the outputs if the
program has ended with 0 and no stop was requested. From outside it behaves like the program itself: signals
are passed on, and it ends as the program did. If one of its own steps fails, it reports that in a sentence,
and ends with a code of its own.

The order at the end makes it safe to die at any point: stored on disk, then reported, then ended with 0. A
job whose outputs were not reported has not succeeded.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from grus.artifacts import status_reports
from grus.artifacts.artifact_store import WORK, ArtifactStore
from grus.artifacts.artifact_upload import keep
from grus.artifacts.cache import ArtifactLease, fetch, remove_tree
from grus.artifacts.manifest import Manifest
from grus.model.artifacts import Artifact, input_variable, output_variable
from grus.model.errors import GrusError

NO_INPUT, NO_OUTPUT, NO_PROGRAM = 66, 73, 127
"""Exit codes, as in sysexits.h and the shell; the sentence goes with them."""
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
EVERY = 10.0
"""Seconds between two lines about a copy that takes long."""


@dataclass(frozen=True, slots=True)
class StagedInput:
    """An input as it is to be brought."""

    name: str
    digest: str
    """Digest of the input; empty if no job has produced it."""
    source: str
    """Producer of this input, in words."""


@dataclass(frozen=True, slots=True)
class StagingPlan:
    """Instructions for this run."""

    vault: Path
    node: str
    """Name of the node's folder in the cache."""
    job: str
    budget: int
    """Bytes of the cache."""
    keeps: bool | None
    """True if this worker stores the outputs; None: if it is the first of its worker group in the end."""
    inputs: tuple[StagedInput, ...]
    outputs: tuple[tuple[str, str], ...]
    """Name and path; an empty path is a folder of its own."""


class Trouble(Exception):
    """Reason why the job cannot continue."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def read_plan(text: str) -> StagingPlan:
    told = json.loads(text)
    return StagingPlan(
        vault=Path(told["vault"]),
        node=told["node"],
        job=told["job"],
        budget=told["budget"],
        keeps=told["keeps"],
        inputs=tuple(StagedInput(*one) for one in told["inputs"]),
        outputs=tuple((name, path) for name, path in told["outputs"]),
    )


def run(plan: StagingPlan, argv: Sequence[str]) -> int:
    """All of it; the code of the end, negative for a signal that it died of. Raises Trouble."""
    vault = ArtifactStore(plan.vault)
    lent = bring(vault, plan)
    try:
        for name, place in places(vault, plan).items():
            os.environ[output_variable(name)] = str(place)
        code, asked = _Program(argv).run()
        keeps = status_reports.rank_zero() if plan.keeps is None else plan.keeps
        if code == 0 and not asked and keeps and plan.outputs:
            status_reports.tell_kept(keep_all(vault, plan))
        return code
    finally:
        for one in lent:
            one.give_back()


def bring(vault: ArtifactStore, plan: StagingPlan) -> list[ArtifactLease]:
    """The inputs, in the cache of this node and in the environment."""
    try:
        vault.make()
    except OSError as error:
        raise Trouble(NO_INPUT, f"the place for artefacts cannot be used: {_words(error)}") from error
    return [_brought(vault, plan, one) for one in plan.inputs]


def _brought(vault: ArtifactStore, plan: StagingPlan, one: StagedInput) -> ArtifactLease:
    if not one.digest:
        raise Trouble(NO_INPUT, f"input {one.name} is missing: {one.source} is not kept")
    try:
        lent = fetch(vault, plan.node, one.digest, plan.budget, _progress(f"fetching input {one.name}"))
    except (GrusError, OSError) as error:
        raise Trouble(NO_INPUT, f"input {one.name} ({one.source}): {_words(error)}") from error
    os.environ[input_variable(one.name)] = str(lent.path)
    return lent


def places(vault: ArtifactStore, plan: StagingPlan) -> dict[str, Path]:
    """Return the paths of the outputs; the folders are there."""
    found = {}
    for name, path in plan.outputs:
        place = Path(path) if path else vault.root / WORK / plan.job / name
        folder = place.parent if path else place
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Trouble(NO_OUTPUT, f"output {name}: {_words(error)}") from error
        found[name] = place
    return found


def keep_all(vault: ArtifactStore, plan: StagingPlan) -> list[Artifact]:
    """Every output, on disk. Raises Trouble with all that are missing."""
    kept, troubles = [], []
    for name, place in places(vault, plan).items():
        try:
            manifest = keep(vault, place, _progress(f"keeping output {name}"))
        except FileNotFoundError:
            troubles.append(f"output {name} is missing: its program ended well, but left nothing at {place}")
        except (GrusError, OSError) as error:
            troubles.append(f"output {name} could not be kept: {_words(error)}")
        else:
            kept.append(Artifact(name, manifest.digest, manifest.size))
            if manifest.entries:
                _say(f"kept output {name}: {_amount(manifest)}, {manifest.digest[:12]}")
            else:
                where = output_variable(name) if place.is_relative_to(vault.root) else place
                troubles.append(f"output {name} is missing: its program ended well, but left {where} empty")
    if troubles:
        raise Trouble(NO_OUTPUT, "; ".join(troubles))
    remove_tree(vault.root / WORK / plan.job)  # they are in the store now
    return kept


class _Program:
    """The job's own program, as a child."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._child: subprocess.Popen[bytes] | None = None
        self._asked: list[int] = []

    def run(self) -> tuple[int, bool]:
        """Run the program; return its exit code, negative for a signal, and whether it was asked to end."""
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)
        try:
            self._child = subprocess.Popen(self._argv)
        except OSError as error:
            text = f"could not start {self._argv[0]}: {error.strerror}"
            if isinstance(error, FileNotFoundError):
                text = f"no such command: {self._argv[0]}"
            raise Trouble(NO_PROGRAM, text) from error
        for early in list(self._asked):  # signals that arrived before there was a process to pass them on to
            self._send(early)
        code = self._child.wait()
        return code, signal.SIGTERM in self._asked

    def _pass_on(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the shape of a handler
        if self._child is None:
            self._asked.append(number)
        elif self._child.returncode is None:  # otherwise the request came too late: it has ended by itself
            self._asked.append(number)
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._child is not None
        self._child.send_signal(number)
        if number == signal.SIGTERM:
            self._child.send_signal(signal.SIGCONT)  # a stopped process would not receive it


def end_as(code: int) -> NoReturn:
    """End as the program did: by the same signal, without a second core dump, or with the same code."""
    sys.stdout.flush()
    sys.stderr.flush()
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


def _progress(what: str) -> Callable[[int, int], None]:
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            _say(f"{what}: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB")

    return tell


def _amount(manifest: Manifest) -> str:
    count = len(manifest.entries)
    size = f"{manifest.size:,} bytes" if manifest.size < 1e5 else f"{manifest.size / 1e6:,.1f} MB"
    return size if manifest.single else f"{size} in {count} files and folders"


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    return str(error)


def _say(text: str) -> None:
    sys.stderr.write(f"[grus] {text}\n")
    sys.stderr.flush()


def main(plan: str, argv: Sequence[str]) -> NoReturn:
    try:
        code = run(read_plan(plan), argv)
    except Trouble as trouble:
        _say(str(trouble))
        status_reports.tell_trouble(str(trouble))
        code = trouble.code
    end_as(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3:])
