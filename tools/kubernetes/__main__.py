"""Real Kubernetes clusters for tests: what tools/kubernetes/up and down run; see docs/kubernetes-testing.md.

Exit codes: 0 done, 1 something broke, 2 wrong words, 3 a cluster cannot be had here (the message says why).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.kubernetes import cgroups, control_plane, nodes
from tools.kubernetes.build import Unavailable, built, say
from tools.kubernetes.locking import locked
from tools.kubernetes.processes import Failed, Processes, end
from tools.kubernetes.settings import Settings, add_user, base, free_slot, load, remove_user, save, users

CANNOT_BE_HAD = 3


def up(words: argparse.Namespace) -> None:
    if given := os.environ.get("GRUS_KUBECONFIG"):
        existing(Path(given))
        return
    programs = os.environ.get("KUBEBUILDER_ASSETS") or str(built())
    if words.build_only:
        return
    began = time.monotonic()
    settings = wanted(words, programs)
    with locked(base() / f"{settings.name}.lock"):
        settings = claimed(settings)
        if words.user:
            add_user(settings.folder, words.user)
        if settings.nodes:
            nodes.make_network(settings)
        control_plane.start(settings)
        if settings.nodes:
            nodes.start(settings)
    say(
        f"{settings.name} is up after {time.monotonic() - began:.1f} s; its logs are in {settings.folder}/log"
    )
    print(settings.kubeconfig)


def existing(kubeconfig: Path) -> None:
    if not kubeconfig.is_file():
        raise Unavailable(f"GRUS_KUBECONFIG names {kubeconfig}, which is no file")
    say("using the cluster that GRUS_KUBECONFIG names; nothing was started, and down will stop nothing")
    print(kubeconfig)


def wanted(words: argparse.Namespace, programs: str) -> Settings:
    settings = Settings(
        name=words.name,
        slot=-1,
        programs=programs,
        nodes=words.nodes,
        gpus=words.gpus,
        resource=words.resource,
        without=tuple(sorted(words.without)),
        flags=tuple((program, flag) for program, _, flag in (one.partition(":") for one in words.flag)),
        images=tuple(str(Path(one).resolve()) for one in words.image),
    )
    missing = [name for name in ("etcd", "kube-apiserver") if not Path(programs, name).exists()]
    if missing:
        raise Unavailable(f"{programs} lacks {' and '.join(missing)}")
    if settings.nodes:
        nodes.check(settings)
    return settings


def claimed(settings: Settings) -> Settings:
    """With a slot of its own, and saved; one of that name that is there already must be of this shape."""
    with locked(base() / "lock"):
        there = load(settings.folder)
        if there is None:
            claim = replace(settings, slot=free_slot(settings.nodes))
            save(claim)
            return claim
    if replace(there, slot=-1) != settings:
        raise Failed(
            f"there is a cluster {there.name} of another shape: tools/kubernetes/down --name {there.name}"
        )
    return there


def down(words: argparse.Namespace) -> None:
    if words.node:
        pull_the_plug(words.name, words.node)
        return
    folders = sorted(base().glob("*/")) if words.all or words.orphans else [base() / words.name]
    for folder in folders:
        lock = folder.with_name(f"{folder.name}.lock")
        with locked(lock):
            if words.user:
                remove_user(folder, words.user)
            if unneeded(folder, words):
                remove(folder)
            lock.unlink()
    remove_base()


def unneeded(folder: Path, words: argparse.Namespace) -> bool:
    if words.orphans:
        return bool(users(folder)) and not in_use(folder)
    return not (words.user and in_use(folder))


def in_use(folder: Path) -> bool:
    return any(user.alive() for user in users(folder))


def remove(folder: Path) -> None:
    if settings := load(folder):
        stop(settings)
    if folder.exists():
        shutil.rmtree(folder)


def stop(settings: Settings) -> None:
    inside = [mark for number in nodes.numbers(settings) for mark in nodes.marks(settings, number)]
    end([*inside, *Processes(settings.folder).marks()])
    if settings.nodes:
        nodes.remove_network(settings)
        cgroups.remove(f"grus-{settings.name}-node")


def remove_base() -> None:
    """With the last cluster goes the folder of all."""
    with locked(base() / "lock"):
        if [file.name for file in base().iterdir()] == ["lock"]:
            (base() / "lock").unlink()
            base().rmdir()


def pull_the_plug(name: str, node: str) -> None:
    settings = load(base() / name)
    if settings is None:
        raise Failed(f"there is no cluster {name}")
    nodes.unplug(settings, int(node.removeprefix("node")))


def names(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError("up to 32 of a-z, 0-9 and -")
    return text


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="tools/kubernetes", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    upwards = commands.add_parser("up", help="start a cluster and print the path of its kubeconfig")
    upwards.add_argument(
        "--name", type=names, default="default", help="several clusters can live side by side"
    )
    upwards.add_argument("--nodes", type=int, default=0, help="how many real nodes; needs root")
    upwards.add_argument("--gpus", type=int, default=4, help="pretend GPUs of each node")
    upwards.add_argument("--resource", default="nvidia.com/gpu", help="the name of that resource")
    both = [control_plane.CONTROLLERS, control_plane.SCHEDULER]
    upwards.add_argument(
        "--without", action="append", default=[], choices=both, help="a program to leave out"
    )
    upwards.add_argument(
        "--flag", action="append", default=[], metavar="PROGRAM:FLAG", help="one more flag of one"
    )
    upwards.add_argument(
        "--image", action="append", default=[], metavar="TAR", help="an archive for the nodes"
    )
    upwards.add_argument("--user", type=int, metavar="PID", help="a process that it is for: see down")
    upwards.add_argument("--build-only", action="store_true", help="only build what is not in the cache")
    upwards.set_defaults(run=up)
    downwards = commands.add_parser("down", help="stop a cluster and remove all that it left")
    downwards.add_argument("--name", type=names, default="default")
    downwards.add_argument("--all", action="store_true", help="all clusters of this user")
    downwards.add_argument("--user", type=int, metavar="PID", help="only if it is for nobody else who lives")
    downwards.add_argument("--orphans", action="store_true", help="those that were for processes now gone")
    downwards.add_argument("--node", help="only this node, as by a power cut; up brings it back")
    downwards.set_defaults(run=down)
    return top


def main(words: Sequence[str]) -> int:
    chosen = parser().parse_args(words)
    try:
        chosen.run(chosen)
    except Unavailable as reason:
        say(f"no cluster can be had here: {reason}")
        return CANNOT_BE_HAD
    except Failed as reason:
        say(str(reason))
        return 1
    except subprocess.CalledProcessError as failed:
        say(f"{failed.cmd} failed with code {failed.returncode}: {failed.stderr or ''}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
