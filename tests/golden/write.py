"""Write golden files as they are now, all or those named: `python -m tests.golden.write [NAME …]`.

A name is a folder, or a file as the failed test names it: `structure/openapi.json`. Review the difference
before you commit it: users or stored state rely on each line.
"""

import argparse
import sys

from tests.golden.goldens import GOLDENS


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="files or folders; all by default")
    wanted = parser.parse_args(arguments).names
    unknown = [name for name in wanted if not any(one.name.startswith(name) for one in GOLDENS)]
    if unknown:
        known = ", ".join(one.name for one in GOLDENS)
        parser.error(f"no golden file is called {', '.join(unknown)}; there are {known}")
    for golden in GOLDENS:
        if (not wanted or golden.name.startswith(tuple(wanted))) and golden.difference():
            golden.path.parent.mkdir(exist_ok=True)
            golden.path.write_text(golden.make(), "utf-8")
            print(f"written: {golden.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
