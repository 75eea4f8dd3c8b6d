"""An empty artifact store."""

from pathlib import Path

import pytest

from grus.artefacts.artifact_store import ArtifactStore
from tests.artefacts.builders import a_vault


@pytest.fixture
def vault(tmp_path: Path) -> ArtifactStore:
    return a_vault(tmp_path / "vault")
