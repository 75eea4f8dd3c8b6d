"""Preflight checks of an environment, from the probe's findings. Pure but for `look_here`.

Every environment is examined in the same way: the probe runs in the workload's place, and its findings become
the same named checks everywhere. A failed check says how to fix it; one that does not apply says why. The
driver adds the facts that only an environment itself can report (image, registry, reachable).
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grus.compare import probe
from grus.compare.environments import Check, PreflightStatus
from grus.compare.workload import Workload

SLOW = 50.0
"""MB/s. A folder over a network of 1 Gbit/s reaches 100; below half of that a workload may wait for data."""
LITTLE = 10e9
"""Bytes of free disk that a run with checkpoints may well fill."""
TOO_LITTLE = 100e6
"""Bytes without which not even the record and the output of a run have room."""
FOREIGN = 0.1
"""The part of a node's cores that others may keep busy before it is said."""
SKEW = 2.0
"""Seconds by which two clocks may differ before times from both cannot be compared."""
PATIENCE = 180.0
NO_PROBE = "probe"
CLOCK = "clock"
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")


def source() -> str:
    """The probe, as it travels."""
    return Path(probe.__file__).read_text()


def instructions(workload: Workload, folder: str = "code") -> str:
    """Return the probe's instructions; the folder of the code is relative to the probe's start folder."""
    return json.dumps(
        {
            "folder": folder,
            "gpus": workload.gpus,
            "programs": programs(workload),
            "paths": [os.path.join(folder, path) for path in workload.data],
        }
    )


def programs(workload: Workload) -> list[str]:
    """Return the programs that the workload starts, as far as its command names them plainly."""
    first = workload.argv[0]
    wanted = [first] if _PLAIN.fullmatch(first) else []
    if len(workload.argv) == 3 and workload.argv[1] == "-c" and os.path.basename(first) in ("sh", "bash"):
        words = workload.argv[2].split()
        wanted += [word for word in words[:1] if _PLAIN.fullmatch(word)]
    return wanted


def found_in(output: str) -> dict[str, Any] | None:
    """Extract the probe's findings from all output; None if there is no complete line of them."""
    for line in reversed(output.splitlines()):
        if line.startswith(probe.MARK):
            try:
                found = json.loads(line.removeprefix(probe.MARK))
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


def look_here(workload: Workload, folder: Path) -> tuple[Check, ...]:
    """Check this machine: run the probe as a process of its own, beside the code."""
    with tempfile.TemporaryDirectory(prefix="grus-probe-") as place:
        order = Path(place, "instructions.json")
        order.write_text(instructions(workload, str(folder)))
        command = ["python3", probe.__file__, str(order)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            return (unseen(str(why)),)
    found = found_in(done.stdout.decode(errors="replace"))
    if found is None:
        return (unseen(done.stderr.decode(errors="replace").strip()[-500:]),)
    return (*judged(found, workload), *without_image(""))


def unseen(why: str, fix: str = "start the same by hand there: python3 --version") -> Check:
    """Return the failed check of an environment that could not be examined from inside."""
    return Check(name=NO_PROBE, verdict=PreflightStatus.FAILED, found=f"it did not run: {why}", fix=fix)


def reachable(found: str) -> Check:
    return Check(name="environment reachable", verdict=PreflightStatus.OK, found=found)


def unreachable(found: str, fix: str) -> Check:
    return Check(name="environment reachable", verdict=PreflightStatus.FAILED, found=found, fix=fix)


def without_image(image: str) -> tuple[Check, ...]:
    """Return the image checks of an environment that runs programs directly; it ignores the job's image."""
    ignored = f"the job's image {image} is not used here" if image else "no images are used here"
    names = ("image", "registry pull", "registry push")
    return tuple(Check(name=name, verdict=PreflightStatus.NOT_APPLICABLE, found=ignored) for name in names)


def clocks_agree(checks: Sequence[Check]) -> bool:
    """Return whether times of this machine and of the environment can be compared."""
    return all(check.verdict is PreflightStatus.OK for check in checks if check.name == CLOCK)


# -------------------------------------------------------------------------------------------------- judging


def judged(
    found: Mapping[str, Any], workload: Workload, between: tuple[float, float] | None = None
) -> tuple[Check, ...]:
    """The probe's findings as checks; `between`: this machine's clock before and after the probe ran."""
    place = found["folder"]
    return (
        *_gpus(found["gpus"], workload.gpus),
        *_volume(place),
        _disk(place),
        _data(found["paths"]),
        _interpreter(found),
        _user(found["user"]),
        _exclusive(found["load"], found["gpus"]),
        *(() if between is None else (_clock(found["at"], between),)),
    )


def _gpus(found: Mapping[str, Any] | None, wanted: int) -> tuple[Check, ...]:
    if not wanted or found is None:
        text = "the workload asks for no GPU"
        return _both(PreflightStatus.NOT_APPLICABLE, text)
    if found["pretend"]:
        fix = "GPU figures mean nothing here: compare on nodes with real GPUs"
        seen = Check(name="GPU visible", verdict=PreflightStatus.WARNING, found="pretend GPUs", fix=fix)
        text = "pretend GPUs do not compute"
        return (seen, Check(name="GPU computes", verdict=PreflightStatus.NOT_APPLICABLE, found=text))
    computes = found["computes"]
    seen_here = computes["gpus"] or len(found["listed"] or ())
    return (_visible(found, seen_here, wanted), _computes(computes, wanted))


def _both(verdict: PreflightStatus, text: str) -> tuple[Check, ...]:
    return tuple(Check(name=name, verdict=verdict, found=text) for name in ("GPU visible", "GPU computes"))


def _visible(found: Mapping[str, Any], seen: int, wanted: int) -> Check:
    name, types = "GPU visible", ", ".join(sorted({one["name"] for one in found["listed"] or ()}))
    text = f"{seen} of {wanted} that were asked for{f' ({types})' if types else ''}"
    if seen == wanted:
        return Check(name=name, verdict=PreflightStatus.OK, found=text)
    if seen > wanted:
        fix = f"let it see only its own: CUDA_VISIBLE_DEVICES with {wanted}, a device plugin, or cgroups"
        text = f"{seen}, though {wanted} were asked for: it can use those of others"
        return Check(name=name, verdict=PreflightStatus.WARNING, found=text, fix=fix)
    if found["devices"]:
        fix = "the devices are there but not the driver: use the NVIDIA runtime (runtimeClassName: nvidia)"
    elif found["promised"] or found["visible"]:
        fix = "GPUs were promised but none is there: install the driver on the node, or mend its GPU list"
    else:
        fix = "ask for the GPUs of this environment (partition, node pool, driver on this machine)"
    return Check(name=name, verdict=PreflightStatus.FAILED, found=text, fix=fix)


def _computes(computes: Mapping[str, Any], wanted: int) -> Check:
    right, wrong = computes["right"], computes["wrong"]
    text = f"{right} of {max(wanted, computes['gpus'])} ran a kernel with the right result"
    if right >= wanted and not wrong:
        return Check(name="GPU computes", verdict=PreflightStatus.OK, found=text)
    told = f"{text}: {'; '.join(wrong)}" if wrong else text
    fix = "see nvidia-smi there: reset or replace the GPU, or match driver and kernel; until then use others"
    return Check(name="GPU computes", verdict=PreflightStatus.FAILED, found=told, fix=fix)


def _volume(place: Mapping[str, Any]) -> tuple[Check, Check]:
    path = place["path"]
    if not place["writable"]:
        fix = "mount a volume that this user may write to, or set the owner of the folder"
        failed = Check(
            name="volume writable", verdict=PreflightStatus.FAILED, found=f"{path}: {place['why']}", fix=fix
        )
        unknown = Check(
            name="volume speed", verdict=PreflightStatus.NOT_APPLICABLE, found="it cannot be written to"
        )
        return failed, unknown
    speed = f"writes {place['write_mb_s']:.0f} MB/s, reads {place['read_mb_s']:.0f} MB/s"
    slow = min(place["write_mb_s"], place["read_mb_s"]) < SLOW
    return (
        Check(name="volume writable", verdict=PreflightStatus.OK, found=path),
        Check(
            name="volume speed",
            verdict=PreflightStatus.WARNING if slow else PreflightStatus.OK,
            found=speed,
            fix=f"below {SLOW:.0f} MB/s data may be waited for: use a local disk or a faster volume"
            if slow
            else "",
        ),
    )


def _disk(place: Mapping[str, Any]) -> Check:
    free = place.get("free")
    if free is None:
        return Check(
            name="free disk", verdict=PreflightStatus.NOT_APPLICABLE, found="the folder cannot be seen"
        )
    verdict = (
        PreflightStatus.FAILED
        if free < TOO_LITTLE
        else PreflightStatus.WARNING
        if free < LITTLE
        else PreflightStatus.OK
    )
    fix = (
        ""
        if verdict is PreflightStatus.OK
        else "make room, or choose a larger volume: checkpoints fill it quickly"
    )
    text = f"{free / 1e9:.1f} GB of {place['total'] / 1e9:.0f} GB"
    return Check(name="free disk", verdict=verdict, found=text, fix=fix)


def _data(paths: Mapping[str, bool]) -> Check:
    if not paths:
        text = "the job names no data by path"
        return Check(name="data readable", verdict=PreflightStatus.NOT_APPLICABLE, found=text)
    missing = [path for path, there in paths.items() if not there]
    if not missing:
        return Check(name="data readable", verdict=PreflightStatus.OK, found=", ".join(paths))
    fix = "bring it there (a shared folder, a volume), or name it as this environment knows it"
    text = f"not there, or not to be read: {', '.join(missing)}"
    return Check(name="data readable", verdict=PreflightStatus.FAILED, found=text, fix=fix)


def _interpreter(found: Mapping[str, Any]) -> Check:
    missing = [name for name, path in found["programs"].items() if path is None]
    text = f"Python {found['python']} at {found['executable']}"
    if not missing:
        return Check(name="interpreter", verdict=PreflightStatus.OK, found=text)
    fix = "install it there, put it into the image, or set PATH in the job's env"
    return Check(
        name="interpreter",
        verdict=PreflightStatus.FAILED,
        found=f"{text}, but no {' and no '.join(missing)} on PATH",
        fix=fix,
    )


def _user(user: Mapping[str, Any]) -> Check:
    text = f"uid {user['uid']} ({user['name'] or 'without a name'}), home {user['home']}"
    if user["home_writable"] and user["name"] is not None:
        return Check(name="user and home", verdict=PreflightStatus.OK, found=text)
    if user["home_writable"]:
        fix = "some programs ask for the user's name: set USER in the job's env"
    else:
        state = "cannot be written to" if user["home_exists"] else "is not there"
        text, fix = (
            f"{text}, which {state}",
            "caches go there: set HOME in the job's env to a folder of its own",
        )
    return Check(name="user and home", verdict=PreflightStatus.WARNING, found=text, fix=fix)


def _exclusive(load: Mapping[str, Any], gpus: Mapping[str, Any] | None) -> Check:
    """Check whether other processes use the node; the probe itself sleeps during the measurement."""
    cores, usable = load["cores"], load["quota_cores"] or load["usable_cores"]
    on_gpus = (gpus or {}).get("others") or 0
    own = f"it may use {usable:g} of {cores} cores"
    if load["busy_cores"] is None:
        text = f"{own}; what others do cannot be seen"
        return Check(
            name="exclusive", verdict=PreflightStatus.WARNING, found=text, fix="ask for the node alone"
        )
    text = f"{own}; others keep {load['busy_cores']:.1f} busy"
    if on_gpus:
        text += f", and {on_gpus} of their processes are on its GPUs"
    if load["busy_cores"] <= FOREIGN * cores and not on_gpus:
        return Check(name="exclusive", verdict=PreflightStatus.OK, found=text)
    fix = "ask for the node alone (Slurm: --exclusive; Kubernetes: a node pool of its own), or wait for quiet"
    return Check(name="exclusive", verdict=PreflightStatus.WARNING, found=text, fix=fix)


def _clock(at: float, between: tuple[float, float]) -> Check:
    """Between which moments of ours the probe looked at its clock is known, so a larger skew shows."""
    before, after = between
    off = at - before if at < before else max(0.0, at - after)
    if abs(off) <= SKEW:
        return Check(name=CLOCK, verdict=PreflightStatus.OK, found="agrees with this machine's")
    text = f"differs from this machine's by at least {abs(off):.1f} s"
    fix = "set both clocks by NTP; until then times across machines (queue, start-up) are left out"
    return Check(name=CLOCK, verdict=PreflightStatus.WARNING, found=text, fix=fix)
