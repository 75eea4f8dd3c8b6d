"""An artifact store whose writer is killed."""

import signal
import subprocess
import sys
from pathlib import Path

from grus.artifacts.artifact_store import ArtifactStore
from grus.artifacts.artifact_upload import keep
from grus.artifacts.manifest import CHUNK
from tests.artifacts.builders import a_folder
from tests.artifacts.test_artifact_store import some

KEEP = """
import sys
from pathlib import Path
from grus.artifacts.artifact_upload import keep
from grus.artifacts.artifact_store import ArtifactStore
def tell(done, total):
    print(done, flush=True)
    sys.stdin.readline()
print(keep(ArtifactStore(Path(sys.argv[1])), Path(sys.argv[2]), tell).digest, flush=True)
"""


def test_a_copy_that_was_killed_counts_for_nothing_and_the_next_goes_on_from_it(
    vault: ArtifactStore, tmp_path: Path
) -> None:
    folder = a_folder(tmp_path / "data", {"big": some(4 * CHUNK)})
    with subprocess.Popen(
        [sys.executable, "-c", KEEP, str(vault.root), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for count in (1, 2):
            assert process.stdout.readline() == f"{count * CHUNK}\n"
            if count == 1:
                process.stdin.write("\n")
                process.stdin.flush()
        process.send_signal(signal.SIGKILL)
        process.wait()
    written = {path: path.stat().st_ino for path in (vault.root / "chunks").glob("*/*")}
    assert len(written) == 2
    assert list(vault.kept("manifests")) == []
    digest = keep(vault, folder).digest
    assert vault.whole(digest)
    assert all(path.stat().st_ino == node for path, node in written.items())
