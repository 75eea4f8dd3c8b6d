"""An empty artifact store."""

from pathlib import Path

import pytest

from grus.artifacts.artifact_store import ArtifactStore
from tests.artifacts.builders import a_vault


@pytest.fixture
def vault(tmp_path: Path) -> ArtifactStore:
    return a_vault(tmp_path / "vault")
