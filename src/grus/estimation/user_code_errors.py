"""Errors of a user's code, reported as input errors: the exception, and the place in the user's files."""

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grus.model.errors import BadInput, GrusError, Mistake

SHOWN = 3
"""Lines of the traceback, the last ones that are the user's."""
LONGEST = 600
_OWN = Path(__file__).parent.parent
_PATHS = {name: os.path.realpath(path) for name, path in sysconfig.get_paths().items()}
_INSTALLED = (_PATHS["purelib"], _PATHS["platlib"])
_LIBRARIES = (*_INSTALLED, _PATHS["stdlib"])


@contextmanager
def blamed(what: str) -> Iterator[None]:
    """Turn any exception of the user's code into an input error of `what`; Grus's own errors pass."""
    try:
        yield
    except GrusError:
        raise
    except (Exception, SystemExit) as error:
        if os.environ.get("GRUS_DEBUG"):
            traceback.print_exc(file=sys.stderr)
        raise BadInput([Mistake(what, raised(error))]) from error


def raised(error: BaseException) -> str:
    """Return the exception, and the user's last lines that
    led to it; a library's, if none of them is theirs.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if is_theirs(frame.filename)][-SHOWN:]
    shown = theirs or [frame for frame in frames if _of_a_library(frame.filename)][-1:]
    lines = [f"  {short(f.filename)}, line {f.lineno}, in {f.name}: {(f.line or '').strip()}" for f in shown]
    return "\n".join([_words(error), *lines])


def _words(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"ended the process (sys.exit({'' if error.code is None else error.code!r}))"
    if isinstance(error, SyntaxError):
        return f"is not Python: {error.msg} ({short(error.filename or '')}, line {error.lineno})"
    text = str(error).strip()
    cut = text if len(text) <= LONGEST else text[:LONGEST] + " …"
    return f"raised {type(error).__name__}{': ' + cut if cut else ''}"


def is_theirs(filename: str) -> bool:
    path = os.path.realpath(filename)
    return not filename.startswith("<") and not path.startswith((str(_OWN), *_LIBRARIES))


def _of_a_library(filename: str) -> bool:
    return os.path.realpath(filename).startswith(_INSTALLED)


def short(filename: str) -> str:
    """Relative to here, where that is shorter."""
    try:
        relative = os.path.relpath(filename)
    except ValueError:  # another drive
        return filename
    return min(relative, filename, key=len)
