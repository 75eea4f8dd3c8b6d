"""An image is a valid OCI archive: every blob has the hash it is named by, and the index names the image."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tools.kubernetes.image import write


def test_every_blob_is_what_its_name_says_and_the_layer_holds_the_file(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    write(tmp_path / "image.tar", "localhost/test:1", {"/program": program}, ["/program"])
    with tarfile.open(tmp_path / "image.tar") as tar:
        blobs = {
            member.name: file.read()
            for member in tar.getmembers()
            if (file := tar.extractfile(member)) is not None
        }
    for name, content in blobs.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    (described,) = json.loads(blobs["index.json"])["manifests"]
    assert described["annotations"] == {"io.containerd.image.name": "localhost/test:1"}
    manifest = json.loads(blobs[f"blobs/{described['digest'].replace(':', '/')}"])
    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(blobs[f"blobs/{layer['digest'].replace(':', '/')}"])) as tar:
        entry = tar.getmember("program")
        assert (entry.uid, entry.mode) == (0, 0o755)
        assert tar.getmember("tmp").mode == 0o1777
