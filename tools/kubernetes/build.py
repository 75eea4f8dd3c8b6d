"""Builds what a test cluster runs, once: Kubernetes from Debian's source, the rest from Debian's packages.

No root is needed and nothing of the system changes: packages are unpacked, not installed, so no service
starts. All work happens in a scratch folder beside the cache, which is renamed into place when everything is
there; a build that fails leaves a message and no half of a cache.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.kubernetes.locking import locked

VERSION = "1.20.2"
RECIPE = 1  # goes up when what is built changes, so that older caches are not taken for it
SOURCE = "kubernetes_1.20.5+really1.20.2.orig.tar.gz"
SOURCE_SHA256 = "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc"
GO = "1.19"  # the newest that this Kubernetes' vendored packages were tried with
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
# Debian package → what of it a cluster runs
PACKAGES = {
    "etcd-server": ("usr/bin/etcd",),
    "kubernetes-client": ("usr/bin/kubectl",),
    "containerd": ("usr/bin/containerd", "usr/bin/containerd-shim-runc-v2", "usr/bin/ctr"),
    "runc": ("usr/sbin/runc",),
    "containernetworking-plugins": ("usr/lib/cni/bridge", "usr/lib/cni/host-local", "usr/lib/cni/loopback"),
}
HERE = Path(__file__).resolve().parent
WITHOUT_SCHEMA = re.compile(
    r"^vendor/k8s\.io/(code-generator|sample-apiserver|kube-openapi)/|/_examples/|/testdata/"
)
WITH_SCHEMA = re.compile(r"^// ?\+k8s:openapi-gen=", re.M)

# reflect2 1.0.1 calls the runtime's mapiterinit as it was before Go 1.18, which since then writes a whole
# iterator to where its caller says: memory is overwritten, and the API server dies of the first map that it
# prints nicely (`?pretty=true`, YAML). So: room for the runtime's iterator, and a call that hands it over.
REFLECT2 = (
    (
        "unsafe_link.go",
        "m unsafe.Pointer) *hiter",
        "m unsafe.Pointer, it *hiter)",
    ),
    (
        "unsafe_link.go",
        "\t// rest fields are ignored\n",
        "\tpointers    [6]unsafe.Pointer // t, h, buckets, bptr, overflow, oldoverflow\n"
        "\tstartBucket uintptr\n\tsmall       [4]uint8 // offset, wrapped, B, i\n\tbuckets     [2]uintptr\n",
    ),
    (
        "unsafe_map.go",
        "\treturn &UnsafeMapIterator{\n\t\thiter:      mapiterinit(type2.rtype, *(*unsafe.Pointer)(obj)),",
        "\tit := &hiter{}\n\tmapiterinit(type2.rtype, *(*unsafe.Pointer)(obj), it)\n"
        "\treturn &UnsafeMapIterator{\n\t\thiter:      it,",
    ),
)


class Unavailable(Exception):
    """A cluster cannot be had here; the text says why and what would help."""


def say(text: str) -> None:
    print(f"kubernetes: {text}", file=sys.stderr, flush=True)


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "grus", "kubernetes")


def built() -> Path:
    """The folder of programs, built first if there is none."""
    place = cache() / f"{VERSION}-{platform.machine()}-{RECIPE}"
    if not place.is_dir():
        with locked(cache() / "lock", lambda: say("another process is building Kubernetes; waiting for it")):
            if not place.is_dir():
                build(place)
    return place / "bin"


def build(place: Path) -> None:
    began = time.monotonic()
    say(f"building Kubernetes {VERSION}, once, into {place} (5 minutes on two free cores, 2 GB on the way)")
    scratch = place.with_name(f".{place.name}.building")
    shutil.rmtree(scratch, ignore_errors=True)  # of a builder that was killed
    try:
        into = scratch / "done" / "bin"
        into.mkdir(parents=True)
        unpack_packages(scratch, into)
        compile_servers(scratch, into)
        (scratch / "done").rename(place)
    finally:
        writable(scratch)
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"built in {time.monotonic() - began:.0f} s")


def unpack_packages(scratch: Path, into: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise Unavailable(
                f"Kubernetes is built from Debian's packages, and {tool} is missing here; "
                "set GRUS_KUBECONFIG to a cluster's kubeconfig or KUBEBUILDER_ASSETS to a folder of programs"
            )
    packages = [*PACKAGES, f"golang-{GO}-go", f"golang-{GO}-src"]
    say(f"fetching Debian's {', '.join(packages)}")
    debs = scratch / "debs"
    debs.mkdir()
    if call(["apt-get", "download", "-qq", *packages], debs, scratch / "log", required=False) != 0:
        call(["apt-get", "update", "-qq"], debs, scratch / "log", required=False)
        call(["apt-get", "download", "-qq", *packages], debs, scratch / "log")
    for deb in sorted(debs.iterdir()):
        call(["dpkg-deb", "-x", str(deb), str(scratch / "debian")], debs, scratch / "log")
    for file in [file for files in PACKAGES.values() for file in files]:
        shutil.copy2(scratch / "debian" / file, into)
    (into.parent / "packages.txt").write_text("".join(f"{deb.stem}\n" for deb in sorted(debs.iterdir())))


def compile_servers(scratch: Path, into: Path) -> None:
    fetch_source(scratch)
    tree = scratch / "go" / "src" / "k8s.io" / "kubernetes"
    unpack_source(scratch, tree)
    for name, old, new in REFLECT2:
        replace_once(tree / "vendor/github.com/modern-go/reflect2" / name, old, new)
    environment = go_environment(scratch)
    generate_schemas(tree, scratch, environment)
    shutil.copy(HERE / "go" / "kubernetes.go", new_folder(tree / "cmd" / "grus") / "main.go")
    shutil.copy(HERE / "go" / "pause.go", new_folder(tree / "cmd" / "grus-pause") / "main.go")
    go_build("k8s.io/kubernetes/cmd/grus-pause", into / "pause", scratch, environment)
    go_build("k8s.io/kubernetes/cmd/grus", into / "kubernetes", scratch, environment)
    for name in SERVERS:
        (into / name).symlink_to("kubernetes")


def fetch_source(scratch: Path) -> None:
    """By apt's own helper, from the archives that apt is set up for: its proxies and certificates hold."""
    say(f"fetching Debian's {SOURCE} (34 MB)")
    archives = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    for archive in sorted(set(archives)):
        address = f"{archive.rstrip('/')}/pool/main/k/kubernetes/{SOURCE}"
        helper = ["/usr/lib/apt/apt-helper", "download-file", address, SOURCE, f"SHA256:{SOURCE_SHA256}"]
        if call(helper, scratch, scratch / "log", required=False) == 0:
            return
    raise Unavailable(
        f"{SOURCE} could not be fetched from the archives that apt knows of "
        f"({', '.join(sorted(set(archives))) or 'none'}); it is Debian 12's source of Kubernetes"
    )


def unpack_source(scratch: Path, tree: Path) -> None:
    tree.mkdir(parents=True)
    command = ["tar", "-xzf", str(scratch / SOURCE), "-C", str(tree), "--strip-components=1"]
    call(command, scratch, scratch / "log")


def replace_once(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if text.count(old) != 1:
        raise RuntimeError(f"{file}: not the text that the patch was made for")
    file.write_text(text.replace(old, new))


def go_environment(scratch: Path) -> Mapping[str, str]:
    """As Kubernetes of that time was built: in a GOPATH, without modules, nothing linked to the system."""
    root = scratch / "debian" / "usr" / "lib" / f"go-{GO}"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "GOMAXPROCS") if name in os.environ}
    return {
        **kept,
        "PATH": f"{root}/bin:{kept.get('PATH', '/usr/bin:/bin')}",
        "GOROOT": str(root),
        "GOPATH": str(scratch / "go"),
        "GOCACHE": os.environ.get("GOCACHE", str(scratch / "compiled")),
        "GO111MODULE": "off",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
        "GOGC": "400",  # less time for the compiler's own garbage, for about 2 GB of memory at the peak
    }


def generate_schemas(tree: Path, scratch: Path, environment: Mapping[str, str]) -> None:
    """The one generated file that the source lacks: the OpenAPI schemas of all API types."""
    generator = scratch / "openapi-gen"
    go_build("k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen", generator, scratch, environment)
    say("generating the schemas of the API")
    folders = ",".join(f"k8s.io/kubernetes/{folder}" for folder in folders_with_schema(tree))
    command = [str(generator), "--logtostderr", "-i", folders, "-O", "zz_generated.openapi"]
    command += ["-p", "k8s.io/kubernetes/pkg/generated/openapi", "-r", str(scratch / "violations")]
    command += ["-h", "hack/boilerplate/boilerplate.generatego.txt"]
    call(command, tree, scratch / "log", environment=environment)


def folders_with_schema(tree: Path) -> Sequence[str]:
    return sorted(
        {str(file.parent) for file in go_files(tree) if WITH_SCHEMA.search((tree / file).read_text())}
    )


def go_files(tree: Path) -> Iterator[Path]:
    # Entries of vendor/k8s.io are links, which rglob does not follow.
    for top in (tree / "pkg", tree / "cmd", tree / "plugin", *sorted((tree / "vendor/k8s.io").iterdir())):
        for folder, _, names in os.walk(f"{top}/"):
            for name in names:
                file = Path(folder, name).relative_to(tree)
                if (
                    name.endswith(".go")
                    and not name.endswith("_test.go")
                    and not WITHOUT_SCHEMA.search(str(file))
                ):
                    yield file


def go_build(package: str, output: Path, scratch: Path, environment: Mapping[str, str]) -> None:
    say(f"compiling {output.name}")
    link = f"-s -w {' '.join(stamps())}"
    # Less to compile and to keep: no clouds, no Docker, no debugging symbols.
    command = [
        "go",
        "build",
        "-v",
        "-trimpath",
        "-tags",
        "providerless,dockerless",
        "-gcflags=all=-dwarf=false",
    ]
    command += ["-ldflags", link, "-o", str(output), package]
    call(
        command,
        scratch / "go" / "src" / "k8s.io" / "kubernetes",
        scratch / "log",
        environment=environment,
        counts=True,
    )


def stamps() -> Iterator[str]:
    """Two packages hold the version: what `kubectl version` shows of a server comes from the client's."""
    major, minor, _ = VERSION.split(".")
    for package in ("client-go/pkg", "component-base"):
        values = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        for name, value in values.items():
            yield f"-X k8s.io/kubernetes/vendor/k8s.io/{package}/version.{name}={value}"


def call(
    command: Sequence[str],
    folder: Path,
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    required: bool = True,
    counts: bool = False,
) -> int:
    """Runs a step. What it says goes to the log, is shown if it fails, and is counted: a package a line."""
    polite = ["nice", "-n", "10", *command]
    with (
        log.open("ab") as file,
        subprocess.Popen(
            polite, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as step,
    ):
        assert step.stdout is not None
        for number, line in enumerate(step.stdout, 1):
            file.write(line)
            if counts and number % 200 == 0:
                say(f"  {number} packages compiled")
    if step.returncode != 0 and required:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise Unavailable(f"{command[0]} failed with code {step.returncode}:\n  " + "\n  ".join(tail))
    return step.returncode


def new_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def writable(folder: Path) -> None:
    """Go makes parts of its folders read-only, which their owner then cannot remove."""
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o700)
