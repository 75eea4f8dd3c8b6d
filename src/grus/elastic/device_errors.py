"""A broken device ends its worker, not its team.

After some errors (an illegal access, an ECC error, a lost bus) every further call on the device fails, in
this process and for ever. Such a worker ends with a code that means: I am out, go on without me.
"""

import os
import sys
import traceback
from types import TracebackType

import torch

OUT = 75
"""Exit code of a worker that is of no more use to its team, while the team goes on."""


def is_sticky(error: BaseException) -> bool:
    """Whether the device is lost with it. Too little memory is the program's mistake, not the device's."""
    return isinstance(error, torch.AcceleratorError) and not isinstance(error, torch.OutOfMemoryError)


def end_apart() -> None:
    """From now on, an error of the device that nobody handles ends this process with `OUT`."""
    usual = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not is_sticky(error):
            usual(kind, error, trace)
            return
        traceback.print_exception(kind, error, trace)
        sys.stderr.write("grus: the device of this worker is lost; the other workers go on\n")
        sys.stderr.flush()
        os._exit(OUT)  # the ordinary way out would wait for the device

    sys.excepthook = hook
