"""Snapshots of code, made with git."""

from dataclasses import replace
from pathlib import Path

import pytest

from grus.model.errors import BadInput
from tests.controlplane.plane import ANN, Plane, a_spec


def test_a_snapshot_keeps_the_code_as_it_was(tmp_path: Path) -> None:
    source = tmp_path / "code"
    (source / "sub").mkdir(parents=True)
    (source / "train.py").write_text("one")
    (source / "sub" / "more.py").write_text("more")
    (source / "link").symlink_to("/etc")
    plane = Plane(state=tmp_path / "state")
    spec = a_spec(workdir=str(source), snapshot=True)
    job = plane.services.actions.submit(ANN, spec, key="k").result()
    copy = Path(job.spec.workdir)
    assert copy.parent == plane.settings.code
    (source / "train.py").write_text("two")
    assert (copy / "train.py").read_text() == "one"
    assert (copy / "sub" / "more.py").read_text() == "more"
    assert (copy / "link").is_symlink()
    assert job.spec.checkpoint.path == str(source / "ckpt")
    (source / "train.py").write_text("one")
    assert plane.services.actions.submit(ANN, spec, key="k").result().id == job.id
    plane.close()


def test_a_snapshot_that_is_too_large_is_refused_clearly(tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x" * 5000)
    plane = Plane(state=tmp_path / "state")
    plane.services.submission._settings = replace(plane.settings, max_snapshot_bytes=4000)
    with pytest.raises(BadInput, match="gitignore"):
        plane.services.actions.submit(ANN, a_spec(workdir=str(tmp_path), snapshot=True)).result()
    assert plane.store.jobs() == []
    plane.close()
