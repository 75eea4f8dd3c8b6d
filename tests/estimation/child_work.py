"""What the tests let a child do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from grus.model.errors import DoesNotFit

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sum:
    total: int
    parts: tuple[int, ...]


def added(tell: Tell, numbers: list[int]) -> Sum:
    for number in numbers:
        tell(f"adding {number}")
    print("words of the user's code")
    return Sum(sum(numbers), tuple(numbers))


def repeated(tell: Tell, number: int, times: int) -> list[int]:
    return [number] * times


def where(tell: Tell) -> list[str]:
    return [os.getcwd(), os.environ["CUDA_VISIBLE_DEVICES"], sys.stdin.read()]


def raising(tell: Tell, words: str) -> None:
    raise KeyError(words)


def too_large(tell: Tell) -> None:
    raise DoesNotFit("nothing is large enough")


def endless(tell: Tell, pid_file: str) -> None:
    with subprocess.Popen(["sleep", "1000"]) as other:
        Path(pid_file).write_text(f"{os.getpid()} {other.pid}")
        tell("counting")
        other.wait()


def greedy(tell: Tell) -> None:
    tell("hoarding")
    held = []
    while True:
        held.append(b"x" * 10_000_000)


def leaving(tell: Tell, code: int) -> None:
    tell("leaving")
    print("the last words")
    os._exit(code)


def crashing(tell: Tell) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)  # longer than any limit here: it is to be ended
