"""Start of a worker's main process, with a clear reason if it fails. Light.

The child reports to its parent over a close-on-exec pipe: end of file means that the command runs, anything
else is the step that failed and the errno.
"""

import errno
import os
import resource
import signal
from collections.abc import Mapping, Sequence

TOKEN = "GRUS_WORKER_TOKEN"  # noqa: S105 - the name of a variable
"""Variable that marks a process as a worker's when no record of it is left."""
_LONGEST_VARIABLE = 131_072
"""Bytes of one variable with its name; Linux's MAX_ARG_STRLEN."""
_OOM_SCORE = b"300"
"""OOM score of a job: when the machine runs out of memory, the kernel should kill a job before the server."""


class Identity:
    """User and groups that a worker runs as; None for the engine's own user."""

    __slots__ = ("gid", "groups", "uid")

    def __init__(self, uid: int, gid: int, groups: Sequence[int]) -> None:
        self.uid = uid
        self.gid = gid
        self.groups = list(groups)


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    workdir: str,
    identity: Identity | None,
    output: int,
    most_data: int = 0,
    box: Sequence[str] = (),
) -> tuple[int, int]:
    """Fork the main process, writing to `output`; return its pid, and the pipe with the result of exec.

    `box` (the words of a sandbox) precedes the command, if any; then the command is looked up before. Beyond
    `most_data` bytes, if it is not 0, the kernel refuses its own memory.
    """
    told, tell = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        step = b"prepare"
        try:
            _prepare(output)
            if most_data:
                resource.setrlimit(resource.RLIMIT_DATA, (most_data, resource.RLIM_INFINITY))
            step = b"user"
            if identity is not None:
                os.setgroups(identity.groups)
                os.setgid(identity.gid)
                os.setuid(identity.uid)
            step = b"workdir"
            os.chdir(workdir)
            step = b"exec"
            if os.getppid() != parent:
                os._exit(
                    127
                )  # given up already; no search by environment could find this process before exec
            if box:
                _look_for(argv[0], env)
                _run_in_box(box, argv, env)
            os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - as it is meant
        except OSError as error:
            os.write(tell, b"%s %d" % (step, error.errno or 0))
        except (ValueError, UnicodeError, IndexError):
            os.write(tell, b"%s %d" % (step, errno.EINVAL))
        finally:
            os._exit(127)
    os.close(tell)
    return pid, told


def _run_in_box(box: Sequence[str], argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Become the sandbox, which passes the environment to the command alone; never returns.

    A variable such as LD_PRELOAD must not reach the sandbox program itself: a library loaded by it would run
    outside. The words are passed in a file without a name, because everybody on the machine may read a
    command line.
    """
    words = b""
    for name, value in env.items():
        pair = os.fsencode(name), os.fsencode(value)
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(name)
        if len(pair[0]) + len(pair[1]) + 2 > _LONGEST_VARIABLE:
            raise OSError(errno.E2BIG, "a variable is too long")
        words += b"--setenv\0%s\0%s\0" % pair
    file = os.memfd_create("environment", 0)
    os.write(file, words)
    os.lseek(file, 0, os.SEEK_SET)
    kept = {TOKEN: env[TOKEN]} if TOKEN in env else {}  # by which it is found if its supervisor dies
    os.execve(box[0], [box[0], "--args", str(file), *box[1:], *argv], kept)  # noqa: S606 - as it is meant


def _look_for(command: str, env: Mapping[str, str]) -> None:
    """Raise the error that exec would: a sandbox could report only that something was missing."""
    folders = [""] if "/" in command else env.get("PATH", os.defpath).split(os.pathsep)
    found = [path for folder in folders if os.path.exists(path := os.path.join(folder, command))]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "no such command")
    programs = [path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)]
    if not programs:
        raise PermissionError(errno.EACCES, "not a program")
    with open(programs[0], "rb") as program:
        first = program.readline(1000)
    if first.startswith(b"#!") and not os.path.exists(first[2:].split()[0]):
        raise FileNotFoundError(errno.ENOENT, "no such interpreter")


def _prepare(output: int) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    # Ignored and blocked signals stay so through exec; the job must start with the defaults.
    for number in (
        signal.SIGCHLD,
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGPIPE,
        signal.SIGTERM,
        signal.SIGXFSZ,
    ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.umask(0o022)
    score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(score, _OOM_SCORE)
    os.close(score)


def explain(message: bytes, argv: Sequence[str], workdir: str) -> str:
    """Return a readable sentence for the child's message."""
    step, _, number = message.decode().partition(" ")
    code = int(number or 0)
    command = argv[0] if argv else ""
    known = {
        ("user", errno.EPERM): "the server may not run a job as another user",
        ("workdir", errno.ENOENT): f"no such folder: {workdir}",
        ("workdir", errno.ENOTDIR): f"not a folder: {workdir}",
        ("workdir", errno.EACCES): f"no permission to enter the folder {workdir}",
        ("exec", errno.EACCES): f"no permission to run {command}",
        (
            "exec",
            errno.ENOEXEC,
        ): f"{command} is no program; if it is a script, its first line must be like #!/bin/sh",
        ("exec", errno.E2BIG): "the command and its environment are too long",
        ("exec", errno.EINVAL): "the command or its environment holds an empty name or a zero byte",
        ("exec", errno.ENOENT): _missing(command),
        ("exec", errno.ENOTDIR): _missing(command),
    }
    return known.get((step, code)) or f"could not start {command} ({step}): {os.strerror(code)}"


def _missing(command: str) -> str:
    if os.path.isabs(command) and os.path.exists(command):
        return f"the interpreter that the first line of {command} names does not exist"
    if "/" in command:
        return f"no such command: {command}"
    return f"no such command on PATH: {command}"
