"""Modules that `grus --help` loads."""

import subprocess
import sys

HEAVY = ("fastapi", "httpx2", "numpy", "pydantic", "uvicorn", "yaml", "psutil")


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['grus', '--help']\n"
        "from grus.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"sys.stderr.write(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "submit" in done.stdout
