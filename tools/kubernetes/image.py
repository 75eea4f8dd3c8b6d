"""Container images without a registry: `python -m tools.kubernetes.image OUT.tar NAME [FILE:/PATH …]`.

The result is an OCI archive that `ctr images import` takes. An image holds no system: pods mount the host's
/usr, /lib and /lib64, for which there are empty folders, and find shells and Python there.
"""

import hashlib
import io
import json
import platform
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FOLDERS = ("dev", "etc", "lib", "lib64", "proc", "root", "sys", "tmp", "usr", "var")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin"}
TEXTS = {"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n"}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
Json = Mapping[str, object]


def layer(files: Mapping[str, Path]) -> bytes:
    """The one layer of an image: the skeleton above, and the files by their path in the image."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        for name, target in LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name, text in TEXTS.items():
            put(tar, name, text.encode())
        for name, source in files.items():
            tar.add(source, name.lstrip("/"), filter=owned_by_root)
    return raw.getvalue()


def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def put(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


class Archive:
    """An OCI archive being written: blobs are named by their hash, the index names the image."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self.tar = tar
        put(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')

    def blob(self, data: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        put(self.tar, f"blobs/sha256/{digest}", data)
        return {
            "mediaType": f"application/vnd.oci.image.{kind}",
            "digest": f"sha256:{digest}",
            "size": len(data),
        }

    def document(self, content: Json, kind: str) -> dict[str, object]:
        return self.blob(json.dumps(content).encode(), f"{kind}+json")


def write(out: Path, name: str, files: Mapping[str, Path], command: Sequence[str] = ()) -> None:
    """An image of that full name, which runs `command` where a pod names none."""
    content = layer(files)
    machine = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    with tarfile.open(out, "w") as tar:
        archive = Archive(tar)
        config = archive.document(
            {
                **machine,
                "config": {"Cmd": list(command), "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
            },
            "config.v1",
        )
        manifest = archive.document(
            {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": config,
                "layers": [archive.blob(content, "layer.v1.tar")],
            },
            "manifest.v1",
        )
        named = {**manifest, "platform": machine, "annotations": {"io.containerd.image.name": name}}
        put(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [named]}).encode())


def main() -> int:
    out, name, *files = sys.argv[1:]
    write(Path(out), name, {path: Path(source) for source, _, path in (one.rpartition(":") for one in files)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
