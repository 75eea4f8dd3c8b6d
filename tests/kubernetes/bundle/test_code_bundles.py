"""The same code makes the same bundle; it arrives whole or not at all, and nothing gets out of its folder."""

import gzip
import io
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from lightkube import Client
from lightkube.resources.core_v1 import ConfigMap

from grus.kubernetes.bundle import code_bundles
from grus.kubernetes.bundle.code_bundles import Bundle, pack
from grus.kubernetes.bundle.unpacking import MOST_UNPACKED, InvalidArchive, digest, piece, unpack
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import CONFIG_MAPS
from grus.model.errors import BadInput, NotFound
from tests.kubernetes.clusters import Cluster, until


def code(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def pieces_of(bundle: Bundle, folder: Path) -> Path:
    folder.mkdir()
    for number, content in enumerate(bundle.pieces):
        (folder / piece(number)).write_bytes(content)
    return folder


def unpacked(bundle: Bundle, folder: Path) -> Path:
    folder.mkdir()
    unpack(bundle.name, pieces_of(bundle, folder / "pieces"), folder / "target")
    return folder / "target"


def an_archive(*entries: tarfile.TarInfo) -> Bundle:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for entry in entries:
            tar.addfile(entry)
    return Bundle(f"{digest(raw.getvalue())}-1", (gzip.compress(raw.getvalue()),))


def an_entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


# ------------------------------------------------------------------------------------------------- packing


def test_a_copy_of_a_folder_makes_the_same_bundle(tmp_path: Path) -> None:
    one = code(tmp_path / "one", train_py="x", lib__model_py="y")
    other = code(tmp_path / "other", lib__model_py="y", train_py="x")
    os.utime(other / "train.py", (1, 1))
    (other / "train.py").chmod(0o600)
    os.link(other / "train.py", tmp_path / "second name")
    assert pack(one) == pack(other)


def test_what_a_program_sees_of_the_code_changes_the_name(tmp_path: Path) -> None:
    folder = code(tmp_path, train_py="x")
    names = [pack(folder).name]
    (folder / "train.py").write_text("y")
    names.append(pack(folder).name)
    (folder / "train.py").chmod(0o755)
    names.append(pack(folder).name)
    (folder / "train.py").rename(folder / "main.py")
    names.append(pack(folder).name)
    assert len(set(names)) == 4


def test_what_was_packed_is_unpacked_for_every_user(tmp_path: Path) -> None:
    folder = code(tmp_path / "code", train_py="x", lib__model_py="y", run_sh="z")
    (folder / "run_sh").chmod(0o755)
    (folder / "link").symlink_to("lib/model.py")
    found = unpacked(pack(folder), tmp_path / "out")
    assert sorted(str(path.relative_to(found)) for path in found.rglob("*")) == sorted(
        ["train.py", "lib", "lib/model.py", "run_sh", "link"]
    )
    assert (found / "link").read_text() == "y"
    assert [os.stat(found / name).st_mode & 0o777 for name in ("lib", "train.py", "run_sh")] == [
        0o777,
        0o666,
        0o777,
    ]
    unpack(pack(folder).name, tmp_path / "out" / "pieces", found)  # once more is no harm


def test_histories_caches_and_what_people_name_stay_outside(tmp_path: Path) -> None:
    folder = code(tmp_path / "code", train_py="x", _git__config="c", __pycache____a="b", data__big="d")
    (folder / "_git").rename(folder / ".git")
    code(folder, notes__a_log="e", b_log="f")
    (folder / ".grusignore").write_text("# big things\ndata/\n*_log\n")
    found = unpacked(pack(folder), tmp_path / "out")
    assert sorted(path.name for path in found.iterdir()) == [".grusignore", "notes", "train.py"]


def test_pipes_and_sockets_are_no_code(tmp_path: Path) -> None:
    folder = code(tmp_path / "code", train_py="x")
    before = pack(folder)
    os.mkfifo(folder / "pipe")
    assert pack(folder) == before


def test_large_code_is_cut_into_pieces_that_fit(tmp_path: Path) -> None:
    folder = code(tmp_path / "code")
    folder.mkdir()
    (folder / "weights").write_bytes(random.Random(1).randbytes(2_000_000))
    bundle = pack(folder)
    assert [len(one) <= code_bundles.PIECE for one in bundle.pieces] == [True] * 3
    found = unpacked(bundle, tmp_path / "out")
    assert (found / "weights").read_bytes() == (folder / "weights").read_bytes()


def test_too_much_is_refused_with_the_names_of_the_largest(tmp_path: Path) -> None:
    folder = code(tmp_path, train_py="x")
    with open(folder / "data.bin", "wb") as file:
        file.truncate(MOST_UNPACKED)
    with pytest.raises(BadInput, match=r"data\.bin \(268\.4 MB\)"):
        pack(folder)
    (folder / "data.bin").write_bytes(random.Random(1).randbytes(11 << 20))
    with pytest.raises(BadInput, match=r"found 12 MB packed"):
        pack(folder)


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside"])
def test_a_link_out_of_the_folder_is_named(tmp_path: Path, target: str) -> None:
    folder = code(tmp_path / "code", train_py="x")
    (folder / "link").symlink_to(target)
    with pytest.raises(BadInput, match="workdir: link: is a link that leads out"):
        pack(folder)


# ----------------------------------------------------------------------------------------------- unpacking


@pytest.mark.parametrize(
    "spoil",
    [
        lambda pieces: (pieces / piece(0)).unlink(),
        lambda pieces: (pieces / piece(0)).write_bytes(b"nonsense"),
        lambda pieces: (pieces / piece(0)).write_bytes((pieces / piece(0)).read_bytes()[:-20]),
        lambda pieces: (pieces / piece(0)).write_bytes(gzip.compress(b"another")),
    ],
    ids=["missing", "nonsense", "cut", "another"],
)
def test_a_bundle_that_is_not_whole_is_refused(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    bundle = pack(code(tmp_path / "code", train_py="x"))
    pieces = pieces_of(bundle, tmp_path / "pieces")
    spoil(pieces)
    with pytest.raises(InvalidArchive):
        unpack(bundle.name, pieces, tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["", "0" * 32, "../../etc-1", "0" * 32 + "-0", "0" * 31 + "-1"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArchive, match="no name"):
        unpack(name, tmp_path, tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        an_entry("../outside"),
        an_entry("link", tarfile.SYMTYPE, "/etc/passwd"),
        an_entry("link", tarfile.SYMTYPE, "../../outside"),
        an_entry("null", tarfile.CHRTYPE),
    ],
    ids=["path", "absolute link", "link", "device"],
)
def test_nothing_gets_out_of_the_folder(tmp_path: Path, entry: tarfile.TarInfo) -> None:
    bundle = an_archive(entry)
    with pytest.raises(InvalidArchive, match="cannot be unpacked"):
        unpacked(bundle, tmp_path / "deep")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "deep" / "outside").exists()


def test_an_archive_that_swells_is_refused(tmp_path: Path) -> None:
    bomb = Bundle("0" * 32 + "-1", (gzip.compress(bytes(MOST_UNPACKED + 1), compresslevel=1),))
    with pytest.raises(InvalidArchive, match="when unpacked"):
        unpacked(bomb, tmp_path / "out")


# ---------------------------------------------------------------------------------------------- in a cluster


def test_a_bundle_is_shared_by_jobs_and_goes_with_the_last_of_them(
    cluster: Cluster, client: Client, namespace: str, tmp_path: Path
) -> None:
    api = Api.connect(cluster.kubeconfig)
    (tmp_path / "weights").write_bytes(random.Random(1).randbytes(1_000_000))
    bundle = pack(tmp_path)
    with pytest.raises(NotFound, match="submit again"):
        code_bundles.adopt(api, namespace, bundle.reference, {})
    owners = [
        api.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace)["metadata"] for name in ("a", "b")
    ]
    for owner in (*owners, owners[0]):
        assert code_bundles.publish(api, namespace, bundle) == bundle.reference
        who = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
        code_bundles.adopt(api, namespace, bundle.reference, who)

    def there() -> list[str]:
        found, _ = api.list(CONFIG_MAPS, namespace, labels=code_bundles.CODE)
        assert all(len(one["metadata"]["ownerReferences"]) <= 2 for one in found)
        return sorted(one["metadata"]["name"] for one in found)

    names = [
        source["configMap"]["name"] for source in code_bundles.volume(bundle.name)["projected"]["sources"]
    ]
    assert there() == names
    client.delete(ConfigMap, "a", namespace=namespace)
    until(lambda: owners_left(api, namespace, names[0]) == ["b"], "the first owner is forgotten")
    assert there() == names
    client.delete(ConfigMap, "b", namespace=namespace)
    until(lambda: not there(), "the bundle goes")
    api.close()


def owners_left(api: Api, namespace: str, name: str) -> list[str]:
    return [one["name"] for one in api.get(CONFIG_MAPS, name, namespace)["metadata"]["ownerReferences"]]
