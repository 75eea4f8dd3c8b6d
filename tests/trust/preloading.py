"""Builds the small C libraries beside this file, which are laid below a program with LD_PRELOAD."""

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CANNOT = "there is no C compiler (cc) to build the layer below the program with"


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


@functools.cache
def library(name: str) -> Path:
    """The library made of `name`.c; made once for each content of it, and found again by later runs."""
    source = Path(__file__).with_name(f"{name}.c")
    cc = compiler()
    if cc is None:
        raise RuntimeError(CANNOT)
    mark = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"grus-trust-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    made = folder / f"{name}-{mark}.so"
    if folder.stat().st_uid != os.getuid():
        raise RuntimeError(f"{folder} belongs to somebody else")
    if not made.exists():
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".so", delete=False) as temporary:
            pass
        subprocess.run([cc, "-O2", "-shared", "-fPIC", "-o", temporary.name, str(source)], check=True)
        os.replace(temporary.name, made)
    return made
