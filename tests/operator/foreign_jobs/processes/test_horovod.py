"""Scripts for Horovod, run as programs."""

import subprocess
import sys
from pathlib import Path

from grus.operator.foreign_jobs import horovod
from tests.operator.foreign_jobs.samples import horovod_sample


def test_the_launcher_finds_every_worker_but_itself(tmp_path: Path) -> None:
    """The script that horovodrun asks, with a DNS that knows the launcher and two workers."""
    launcher = horovod.convert(horovod_sample(), prepared=True)["spec"]["roles"]["launcher"]["run"]
    programs = tmp_path / "bin"
    programs.mkdir()
    getent = programs / "getent"
    getent.write_text(
        '#!/bin/sh\n[ "$*" = "ahostsv4 grus-j0000000001" ] || exit 2\n'
        'for a in 10.0.0.1 10.0.0.2 10.0.0.3; do echo "$a STREAM"; echo "$a DGRAM"; done\n'
    )
    getent.chmod(0o755)
    script = tmp_path / "discover_hosts.sh"
    written = launcher.replace("/tmp/discover_hosts.sh", str(script))
    begin = written.index("echo '#!/bin/sh")
    line = written[begin : written.index("\nuntil")]
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "GRUS_JOB": "j0000000001",
        "GRUS_HOST": "10.0.0.2",
    }
    subprocess.run(["/bin/sh", "-c", line], env=environment, check=True)
    found = subprocess.run([script], env=environment, check=True, capture_output=True, text=True).stdout
    assert found.split() == ["10.0.0.1:1", "10.0.0.3:1"]


def test_on_the_front_a_script_for_horovod_runs_unchanged(tmp_path: Path) -> None:
    """The very command that the job runs, in a shell, with a script that only knows Horovod's own name."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport horovod.torch as hvd\nimport horovod.torch.elastic as elastic\n"
        "assert hvd.elastic is elastic and elastic.TorchState\n"
        "hvd.init()\nprint(hvd.rank(), hvd.size(), *sys.argv[1:])\n"
    )
    source = horovod_sample()
    source["spec"]["launcherSpec"]["pythonCommand"] = [sys.executable, f"{script} --epochs=10"]
    run = horovod.convert(source, prepared=False)["spec"]["run"]
    (tmp_path / "python3").symlink_to(sys.executable)
    path = ":".join(entry for entry in sys.path if entry)
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": path}
    done = subprocess.run(
        ["/bin/sh", "-c", run], env=environment, check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "0 1 --epochs=10\n"), done.stderr


def test_tensorflow_on_the_front_is_told_what_to_do() -> None:
    program = "import horovod.tensorflow"
    folder = Path(horovod.__file__).parents[2] / "elastic/adapters/horovod_names/folder"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "grus.dev/horovod=run" in done.stderr
