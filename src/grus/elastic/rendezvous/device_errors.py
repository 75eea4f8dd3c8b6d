"""Sticky device errors: a broken device ends its worker, not the worker group.

After some errors (an illegal access, an ECC error, a lost bus) every further call on the device fails for the
rest of this process. Such a worker exits with a code that means: this worker is out, continue without it.
"""

import os
import sys
import traceback
from types import TracebackType

import torch

OUT = 75
"""Exit code of a worker that can no longer take part in its group, while the group continues."""


def is_sticky(error: BaseException) -> bool:
    """Return whether the error leaves the device lost. Out
    of memory (OOM) is the program's error, not the device's.
    """
    return isinstance(error, torch.AcceleratorError) and not isinstance(error, torch.OutOfMemoryError)


def end_apart() -> None:
    """Make every unhandled device error end this process with the exit code `OUT` from now on."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not is_sticky(error):
            usual(kind, error, trace)
            return
        traceback.print_exception(kind, error, trace)
        sys.stderr.write("grus: the device of this worker is lost; the other workers go on\n")
        sys.stderr.flush()
        os._exit(OUT)  # the usual exit would wait for the device

    sys.excepthook = hook
