"""Draw docs/pictures/demo.svg from the real demo: `python tools/picture.py`.

The demo runs with its output in a pipe and colours forced; what it printed is drawn as a terminal.
"""

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 118


def main() -> int:
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    grus = Path(sys.executable).with_name("grus")
    demo = subprocess.run([grus, "demo"], env=environment, capture_output=True, text=True, check=False)
    if demo.returncode != 0:
        print(demo.stdout + demo.stderr, file=sys.stderr)
        print("the demo did not end as it should; no picture was drawn", file=sys.stderr)
        return 1
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi("$ make run"))
    console.print(Text.from_ansi(demo.stdout))
    (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
    console.save_svg(str(ROOT / "docs" / "pictures" / "demo.svg"), title="grus demo")
    return 0


if __name__ == "__main__":
    sys.exit(main())
