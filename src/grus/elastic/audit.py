"""Sample audit: workers record which samples they used during training, for a later check.

Every worker process appends to a file of its own: a line for each micro-batch before its gradient can reach
another worker (`processed`), and one for each step when the optimizer has applied it (`committed`). A line is
one write to the operating system, so it outlives the process, even after kill -9 (not the machine: there is
no fsync).

Each line names its worker group and the start of its attempt. Workers receive that number together with the
state, so that all lines of one attempt carry the same one. The times of lines cannot distinguish attempts: a
worker without a part in its first step may record it after the last line of a worker that was lost.

`examine` is pure. A step counts as the last worker group that committed it did it. Earlier commits of the
same step are void, which is right only if all workers that made them are gone, so that no worker has that
state any more. If one of several survivors committed a step before a loss, that commit counts; the workers
that were behind get its state and never commit that step themselves.

    python -m grus.elastic.audit FOLDER --samples 50000
"""

import argparse
import json
import logging
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Key = tuple[int, int]
"""Key of a worker group in a run: its attempt, and its number, which may restart in each attempt."""

log = logging.getLogger(__name__)

_ENDING = ".jsonl"
_SHOWN = 20
"""Wrongs that are printed; there may be as many as samples."""


class Audit:
    """Audit log of one worker process; lives as long as the process."""

    def __init__(self, folder: Path | str, worker: str) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{re.sub(r'[^0-9A-Za-z]+', '-', worker)}.{os.getpid()}.{os.urandom(4).hex()}{_ENDING}"
        self._file: int | None = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def processed(self, team: Key, step: int, epoch: int, micro_index: int, samples: list[int]) -> None:
        """Record before the exchange that these samples' gradient may become part of the step."""
        self._append(team, {"step": step, "epoch": epoch, "micro": micro_index, "samples": samples})

    def committed(self, team: Key, step: int, epoch: int, start: int, stop: int) -> None:
        """Record after the optimizer that the positions [start, stop) of the epoch are done."""
        self._append(team, {"step": step, "epoch": epoch, "start": start, "stop": stop})

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, team: Key, line: dict[str, object]) -> None:
        if self._file is None:
            return
        line = {"at": round(time.time(), 3), "begun": team[0], "team": team[1], **line}
        content = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            whole = os.write(self._file, content) == len(content)
        except OSError as error:
            log.warning("the audit cannot be written, and ends here: %s", error)
            self.close()
            return
        if not whole:
            log.warning("the audit cannot be written, and ends here: no room")
            self.close()


@dataclass(frozen=True, slots=True)
class Processed:
    """A micro-batch that a worker computed."""

    team: Key
    step: int
    epoch: int
    micro: int
    samples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A step that a worker's optimizer did."""

    team: Key
    step: int
    epoch: int
    start: int
    stop: int


Line = Processed | Committed


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of an audit. If `wrong` is empty, every sample was used exactly once per epoch."""

    samples: int
    epochs: int
    """Complete ones."""
    steps: int
    teams: int
    workers: int
    redone: int
    """Steps started under more than one worker group."""
    void: int
    """Steps committed by workers that were all lost before any other had their state, and done again."""
    wrong: tuple[str, ...]


def check(folder: Path | str, samples: int, epochs: int | None = None) -> Findings:
    """Read what the workers wrote, and examine it."""
    return examine(*read(Path(folder)), samples=samples, epochs=epochs)


def read(folder: Path) -> tuple[dict[str, list[Line]], list[str]]:
    """The lines of each worker process, and what could not be read."""
    lines: dict[str, list[Line]] = {}
    wrong = []
    for path in sorted(folder.glob(f"*{_ENDING}")):
        whole = path.read_bytes().split(b"\n")[:-1]  # the rest: a line cut off by its writer's death
        lines[path.stem] = own = []
        for number, content in enumerate(whole, 1):
            try:
                own.append(_line(json.loads(content)))
            except (ValueError, KeyError, TypeError) as error:
                wrong.append(f"{path.name}, line {number} cannot be read: {error!r}")
    return lines, wrong


def _line(told: dict[str, Any]) -> Line:
    team = (int(told.get("begun", 0)), int(told["team"]))  # 0: written before lines had this field
    where = (team, int(told["step"]), int(told["epoch"]))
    if "samples" in told:
        return Processed(*where, int(told["micro"]), tuple(map(int, told["samples"])))
    return Committed(*where, int(told["start"]), int(told["stop"]))


def examine(
    lines: Mapping[str, Sequence[Line]],
    unread: Sequence[str] = (),
    *,
    samples: int,
    epochs: int | None = None,
) -> Findings:
    """Check that every sample is used once an epoch, and each committed step has all its micro-batches once.

    With `epochs`, so many must be complete and there must be no more; without, the last one may be under way.
    """
    record = _record(lines)
    wrong = list(unread)
    counted = _counted(record, wrong)
    if not counted:
        wrong.append("no step was committed")
    for step, key in counted.items():
        _examine_step(record, key, step, samples, wrong)
    complete = _examine_epochs(record, counted, samples, epochs, wrong)
    return Findings(
        samples=samples,
        epochs=complete,
        steps=len(counted),
        teams=len({key for key, _ in record.commits}),
        workers=len(lines),
        redone=sum(number > 1 for number in Counter(step for _, step in record.parts).values()),
        void=len({step for key, step in record.commits if counted.get(step) != key}),
        wrong=tuple(wrong),
    )


@dataclass(slots=True)
class _AuditLines:
    """All lines, by worker group and step; attempts are numbered from 0, oldest first."""

    parts: dict[tuple[Key, int], list[tuple[str, Processed]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    commits: dict[tuple[Key, int], dict[str, Committed]] = field(default_factory=lambda: defaultdict(dict))
    lowest: dict[str, dict[Key, int]] = field(default_factory=lambda: defaultdict(dict))
    """First step that each worker process recorded a line of, under each of its worker groups."""


def _record(lines: Mapping[str, Sequence[Line]]) -> _AuditLines:
    begun = sorted({line.team[0] for own in lines.values() for line in own})
    attempts = {number: attempt for attempt, number in enumerate(begun)}
    record = _AuditLines()
    for worker, own in lines.items():
        for line in own:
            key = (attempts[line.team[0]], line.team[1])
            own_steps = record.lowest[worker]
            own_steps[key] = min(own_steps.get(key, line.step), line.step)
            if isinstance(line, Processed):
                record.parts[key, line.step].append((worker, line))
            else:
                record.commits[key, line.step][worker] = line
    return record


def _counted(record: _AuditLines, wrong: list[str]) -> dict[int, Key]:
    """Return the worker group under which each step counts.

    A worker group that starts at a step voids that step and all later ones that earlier groups committed.
    """
    steps: dict[Key, list[int]] = defaultdict(list)
    for key, step in record.commits:
        steps[key].append(step)
    counted: dict[int, Key] = {}
    for key in sorted(steps):
        for step in [step for step in counted if step >= min(steps[key])]:
            earlier = counted.pop(step)
            here = [
                worker
                for worker in record.commits[earlier, step]
                if _went_back(record, worker, step, earlier, key)
            ]
            if here:
                wrong.append(
                    f"step {step} was committed under {_team(earlier)}, and the run went back behind it "
                    f"under {_team(key)}, yet {_names(here)} lived on"
                )
        counted.update(dict.fromkeys(steps[key], key))
    return dict(sorted(counted.items()))


def _went_back(record: _AuditLines, worker: str, step: int, committed: Key, back: Key) -> bool:
    """Test whether a worker that had committed a step took part when the group `back` did it again.

    It may live for a while after its commit; if it is lost before another worker has its state, it does no
    harm.
    """
    return any(
        team >= back or (team > committed and lowest <= step)
        for team, lowest in record.lowest[worker].items()
    )


def _examine_step(record: _AuditLines, key: Key, step: int, samples: int, wrong: list[str]) -> None:
    """Check the micro-batches of one committed step: those of all workers of that group, dead ones too."""
    where = f"step {step} under {_team(key)}"
    told = {(line.epoch, line.start, line.stop) for line in record.commits[key, step].values()}
    if len(told) > 1:
        wrong.append(f"{where}: workers disagree about what it was: {sorted(told)}")
    epoch, start, stop = min(told)
    parts = record.parts.get((key, step), [])
    for micro, times in _repeated(line.micro for _, line in parts):
        who = _names(worker for worker, line in parts if line.micro == micro)
        wrong.append(f"{where}: micro-batch {micro} was processed {times} times, by {who}")
    missing = sorted(set(range(len(parts))) - {line.micro for _, line in parts})
    if missing:
        wrong.append(f"{where}: micro-batches {_few(missing)} were never processed")
    if any(line.epoch != epoch for _, line in parts):
        wrong.append(f"{where}: it has samples of another epoch than {epoch}")
    used = [sample for _, line in parts for sample in line.samples]
    if len(used) != stop - start:
        wrong.append(f"{where}: {len(used)} samples were processed in place of {stop - start}")
    if strange := sorted({sample for sample in used if not 0 <= sample < samples}):
        wrong.append(f"{where}: the dataset has no sample {_few(strange)}")


def _examine_epochs(
    record: _AuditLines, counted: Mapping[int, Key], samples: int, epochs: int | None, wrong: list[str]
) -> int:
    """Steps and positions follow each other without gap or overlap, and no sample comes twice an epoch.

    Returns the number of complete epochs.
    """
    at = (0, 0)
    used: Counter[int] = Counter()
    for expected, (step, key) in enumerate(counted.items()):
        if step != expected:
            wrong.append(f"no step {expected} was committed; the next one is {step}")
            return at[0]
        line = min(record.commits[key, step].values(), key=lambda line: (line.epoch, line.start))
        if (line.epoch, line.start) != at or not line.start < line.stop <= samples:
            wrong.append(
                f"step {step} is [{line.start}, {line.stop}) of epoch {line.epoch}, but the ones before came "
                f"to {at[1]} of epoch {at[0]}"
            )
            return at[0]
        used.update(sample for _, part in record.parts.get((key, step), ()) for sample in part.samples)
        at = (line.epoch, line.stop)
        if line.stop == samples:
            _examine_use(used, line.epoch, samples, wrong)
            at = (line.epoch + 1, 0)
            used.clear()
    _examine_use(used, at[0], None, wrong)
    if epochs is not None and at != (epochs, 0):
        wrong.append(f"{epochs} epochs were to be done, and it came to sample {at[1]} of epoch {at[0]}")
    return at[0]


def _examine_use(used: Counter[int], epoch: int, samples: int | None, wrong: list[str]) -> None:
    """No sample twice; and in a complete epoch, of so many samples, all of them."""
    if twice := sorted(sample for sample, times in used.items() if times > 1):
        wrong.append(f"epoch {epoch}: {len(twice)} samples were used more than once: {_few(twice)}")
    if samples is not None and (never := sorted(set(range(samples)) - used.keys())):
        wrong.append(f"epoch {epoch}: {len(never)} samples were never used: {_few(never)}")


def _repeated(numbers: Iterable[int]) -> list[tuple[int, int]]:
    return [(number, times) for number, times in sorted(Counter(numbers).items()) if times > 1]


def _team(key: Key) -> str:
    return f"team {key[1]}" if key[0] == 0 else f"team {key[1]} of attempt {key[0] + 1}"


def _names(workers: Iterable[str]) -> str:
    return ", ".join(sorted(set(workers)))


def _few(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown if len(numbers) <= 5 else f"{shown}, … ({len(numbers)})"


def table(findings: Findings) -> str:
    rows = [f"{name:<8} {value}" for name, value in asdict(findings).items() if name != "wrong"]
    rows += [f"WRONG    {text}" for text in findings.wrong[:_SHOWN]]
    if len(findings.wrong) > _SHOWN:
        rows.append(f"WRONG    … and {len(findings.wrong) - _SHOWN} more (all with -o json)")
    return "\n".join([*rows, "" if findings.wrong else "every sample was used exactly once an epoch", ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m grus.elastic.audit", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, required=True, help="length of the dataset")
    parser.add_argument("--epochs", type=int, help="so many epochs must be complete")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    asked = parser.parse_args(arguments)
    if not asked.folder.is_dir():
        parser.error(f"there is no folder {asked.folder}")
    findings = check(asked.folder, asked.samples, asked.epochs)
    sys.stdout.write(json.dumps(asdict(findings)) + "\n" if asked.output == "json" else table(findings))
    return 1 if findings.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
