"""Draw docs/pictures/demo.svg from the real demo: `python tools/picture.py`.

The demo runs in a pseudo-terminal. Of its live view the moment is kept in which a borrower has stepped aside
for the owner; below it stands the last table.
"""

import fcntl
import html
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "demo.svg"
WIDTH, HEIGHT = 132, 70
# The live view goes back to its first line before each redraw; what stands between two of these is one frame.
REDRAW = re.compile(r"(?:\r?\x1b\[(?:2K|1A)|\x1b\[\?25[lh])+\r?")
TEXT = re.compile(
    r'(?P<head><text class="[^"]*" x=")(?P<x>[^"]*)(?P<middle>" y="[^"]*" textLength=")[^"]*'
    r'(?P<tail>" clip-path="[^"]*">)(?P<content>[^<]*)</text>'
)
RUN = re.compile("[^\xa0]+(?:\xa0[^\xa0]+)*")
CELL = 12.2
"""Width of a character in rich's drawing."""
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.S)


def main() -> int:
    shown, code = run_in_terminal([str(Path(sys.executable).with_name("grus")), "demo"])
    frames = [frame for frame in REDRAW.split(shown) if frame.strip()]
    moments = [frame for frame in frames if "the owner is done" in frame and "paused" in frame]
    if code != 0 or not moments:
        print(shown, file=sys.stderr)
        print("the demo did not end as it should; no picture was drawn", file=sys.stderr)
        return 1
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for part in ("$ make run", moments[len(moments) // 2], frames[-1]):
        console.print(Text.from_ansi(part.replace("\r", "").strip("\n")), soft_wrap=True)
        console.print()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(portable(console.export_svg(title="grus demo")), encoding="utf-8")
    return 0


def portable(svg: str) -> str:
    """Without fonts that a viewer would have to fetch, and aligned whatever font it takes instead."""
    return TEXT.sub(lambda found: placed(**found.groupdict()), FONTS.sub("", svg))


def placed(head: str, x: str, middle: str, tail: str, content: str) -> str:
    """One text element for each run of words, at the column where it belongs."""
    text = html.unescape(content)
    pieces = []
    for run in RUN.finditer(text):
        shown = html.escape(run.group(), quote=False).replace("\xa0", "&#160;")
        column = f"{float(x) + run.start() * CELL:g}"
        pieces.append(f"{head}{column}{middle}{len(run.group()) * CELL:g}{tail}{shown}</text>")
    return "".join(pieces)


def run_in_terminal(command: list[str]) -> tuple[str, int]:
    """Everything that the command writes to a terminal of its own, and its exit code."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT)}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 1 << 16):
                parts.append(part)
        except OSError:
            pass  # the last writer has closed the terminal
        os.close(ours)
    return b"".join(parts).decode(errors="replace"), process.returncode


if __name__ == "__main__":
    sys.exit(main())
