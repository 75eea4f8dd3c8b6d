"""Wheels of both distributions, and environments like those of users: without Grus, or with the SDK alone."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheels(folder: Path) -> dict[str, Path]:
    """Both, by the name of the distribution."""
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-build-isolation",
        "--no-deps",
        "-w",
        str(folder),
    ]
    subprocess.run([*build, str(ROOT), str(ROOT / "packaging" / "sdk")], check=True, timeout=300)
    return {path.name.split("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


def make_environment(folder: Path, *wheels: Path) -> Path:
    """A virtual environment with these wheels and nothing else; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=300)
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(packages_of(folder))
    return folder / "bin" / "python3"


def packages_of(environment: Path) -> Path:
    return next((environment / "lib").glob("python*")) / "site-packages"
