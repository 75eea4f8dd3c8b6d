"""Documentation checked with programs: git, and every command of the README."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.test_docs import ROOT, readme_commands

# Written so that the patterns do not find themselves.
FOREIGN = re.compile(r"/(wor)k/|/(roo)t/|https?://[^ /]*(pypi|pythonh|debian|npmj)")


def test_no_file_names_a_path_of_one_machine_or_a_registry() -> None:
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone: only git knows which files belong to the project")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert not found


@pytest.mark.parametrize("command", readme_commands())
def test_every_command_of_the_readme_exists_with_its_options(command: str) -> None:
    words = shlex.split(command.split(" -- ")[0])[1:]
    options = [word.split("=")[0] for word in words if word.startswith("-")]
    path = words[:2] if words[0] == "queue" and len(words) > 1 else words[:1]
    shown = subprocess.run(
        [Path(sys.executable).with_name("grus"), *path, "--help"],
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    assert not [option for option in options if option not in shown.stdout]
    files = re.findall(r"\bexamples/\S+", command)
    assert not [file for file in files if not (ROOT / file).is_file()]
