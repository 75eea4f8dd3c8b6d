"""The sampler as a program: what it starts, what it counts to whom, and how it ends."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grus.compare import records, sampler
from grus.compare.environments import Order
from grus.compare.records import RunRecord
from tests.server.process import eventually

SAYS = """
import json, os, time
def say(stage, **figures):
    line = {"at": time.time(), "stage": stage, "precision": "fp32", "figures": figures}
    with open(os.environ["GRUS_REPORT"], "a") as file:
        file.write(json.dumps(line) + "\\n")
"""
BURN = """
import time
end = time.process_time() + {}
while time.process_time() < end:
    pass
"""


def a_bundle(folder: Path, **files: str) -> Path:
    (folder / "code").mkdir()
    for name, text in files.items():
        (folder / "code" / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "sampler.py").write_bytes(Path(sampler.__file__).read_bytes())
    return folder


def an_order(argv: tuple[str, ...], **changes: object) -> Order:
    return Order(**{"name": "one", "argv": argv, "period": 0.2, **changes})  # type: ignore[arg-type]  # kinds vary


def started(bundle: Path, order: Order) -> subprocess.Popen[bytes]:
    (bundle / "order.json").write_text(order.text(), encoding="utf-8")
    command = [sys.executable, str(bundle / "sampler.py"), str(bundle / "order.json"), str(bundle / "out")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ran(bundle: Path, order: Order) -> RunRecord:
    printed, complained = started(bundle, order).communicate(timeout=300)
    assert (printed, complained) == (b"", b"")
    return records.read((bundle / "out" / "record.jsonl").read_text(encoding="utf-8"))


def test_it_is_one_file_that_old_pythons_read_and_that_needs_nothing_else() -> None:
    tree = ast.parse(Path(sampler.__file__).read_text(encoding="utf-8"), feature_version=(3, 8))
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    roots = {
        (name.name if isinstance(node, ast.Import) else node.module or "").partition(".")[0]
        for node in named
        for name in node.names
    }
    assert roots <= set(sys.stdlib_module_names)


def test_what_a_child_used_counts_after_its_end(tmp_path: Path) -> None:
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '''{BURN.format(0.8)}'''])\n"
    found = ran(a_bundle(tmp_path, parent=parent), an_order((sys.executable, "parent.py")))
    assert found.finish is not None
    assert found.finish.code == 0
    assert found.finish.cpu_seconds is not None
    assert found.finish.cpu_seconds >= 0.8
    spans = [b.t - a.t for a, b in zip(found.samples, found.samples[1:], strict=False)]
    sampled = sum(s.cpu * span for s, span in zip(found.samples[1:], spans, strict=True) if s.cpu is not None)
    assert sampled <= found.finish.cpu_seconds + 0.05, "no second is counted twice"


def test_the_load_beside_it_is_not_counted_as_the_workload(tmp_path: Path) -> None:
    sleeper = "import time\ntime.sleep(1.5)\n"
    found = ran(a_bundle(tmp_path, sleeper=sleeper), an_order((sys.executable, "sleeper.py"), load=2))
    assert found.load == 2
    assert max(one.processes for one in found.samples) == 1
    load = [one.load_cpu or 0.0 for one in found.samples]
    assert sum(load) > sum(one.cpu or 0.0 for one in found.samples), "it sleeps, and they compute"


def test_what_no_sample_saw_counts_all_the_same(tmp_path: Path) -> None:
    """A setup that ended before the first sample, and a process whose parent had gone before."""
    orphan = (
        "import os, subprocess, sys\nos.mkfifo('done')\n"
        "subprocess.run(f'({sys.executable} burn.py; echo > done) &', shell=True)\n"
        "open('done').read()\n"
    )
    found = ran(
        a_bundle(tmp_path, orphan=orphan, burn=BURN.format(0.3)),
        an_order((sys.executable, "orphan.py"), period=30, setup=(f"{sys.executable} burn.py",)),
    )
    assert found.finish is not None
    assert found.finish.cpu_seconds is not None
    assert found.finish.cpu_seconds >= 0.6


def test_stages_and_steps_have_the_workloads_own_times(tmp_path: Path) -> None:
    steps = (
        f"{SAYS}\nsay('load')\nfor step in range(1, 4):\n    say('train', step=step, batch=16)\n"
        "say('save', step=3)\n"
    )
    found = ran(a_bundle(tmp_path, steps=steps), an_order((sys.executable, "steps.py"), setup=("true",)))
    assert [stage.name for stage in found.stages] == ["setup", "run", "load", "train", "save"]
    assert [told.figures.get("step") for told in found.told] == [None, 1, 2, 3, 3]
    assert {told.words["precision"] for told in found.told} == {"fp32"}
    times = [stage.t for stage in found.stages]
    assert times == sorted(times)


def test_what_the_library_reports_is_read_with_its_words(tmp_path: Path) -> None:
    says = "import grus\nfrom grus.sdk.worker import tell\ntell(stage='train', precision='bf16')\n"
    steps = "for step in (1, 2):\n    grus.report(step=step, batch=8, loss=0.5)\n"
    found = ran(a_bundle(tmp_path, s=says + steps), an_order((sys.executable, "s.py")))
    assert [stage.name for stage in found.stages] == ["run", "train"]
    assert found.told[-1].figures == {"step": 2, "batch": 8, "loss": 0.5}
    assert found.told[-1].words["precision"] == "bf16"


def test_what_is_left_behind_is_ended_and_the_code_is_as_it_was(tmp_path: Path) -> None:
    leaving = (
        "import pathlib, subprocess\npathlib.Path('checkpoint').write_text('x')\n"
        "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\nprint(child.pid)\n"
    )
    bundle = a_bundle(tmp_path, leaving=leaving)
    first = ran(bundle, an_order((sys.executable, "leaving.py")))
    left = int((bundle / "out" / "output.txt").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(left, 0)
    second = ran(bundle, an_order((sys.executable, "leaving.py")))
    assert first.code == second.code, "a checkpoint of the first run would be a shortcut for the second"


def test_a_limit_ends_the_workload_and_is_said(tmp_path: Path) -> None:
    found = ran(
        a_bundle(tmp_path, long="import time\ntime.sleep(300)\n"),
        an_order((sys.executable, "long.py"), limit=0.5),
    )
    assert found.finish is not None
    assert (found.finish.timed_out, found.finish.code) == (True, 128 + signal.SIGTERM)


def test_asked_to_end_it_ends_the_workload_first_and_records_it(tmp_path: Path) -> None:
    bundle = a_bundle(tmp_path, long="import time\ntime.sleep(300)\n")
    process = started(bundle, an_order((sys.executable, "long.py")))
    record = bundle / "out" / "record.jsonl"
    eventually(lambda: record.exists() and b'"sample"' in record.read_bytes(), "a first sample")
    process.terminate()
    assert process.wait(timeout=300) == 0
    process.communicate()
    found = records.read(record.read_text(encoding="utf-8"))
    assert found.finish is not None
    assert found.finish.stopped


def test_a_command_that_is_not_there_has_the_shells_code(tmp_path: Path) -> None:
    found = ran(a_bundle(tmp_path), an_order(("no-such-program",)))
    assert found.finish is not None
    assert found.finish.code == 127
    assert "no-such-program" in (tmp_path / "out" / "output.txt").read_text()


def test_a_setup_that_fails_ends_the_run_before_the_workload(tmp_path: Path) -> None:
    found = ran(a_bundle(tmp_path), an_order(("touch", "ran"), setup=("exit 3",)))
    assert found.finish is not None
    assert found.finish.code == 3
    assert [stage.name for stage in found.stages] == ["setup"]


def test_other_contents_have_another_digest_and_bytecode_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = sampler.contents(str(tmp_path), "code")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("x")
    assert sampler.contents(str(tmp_path), "code") == before
    (tmp_path / "a.py").write_text("2")
    assert sampler.contents(str(tmp_path), "code")["digest"] != before["digest"]
    assert sampler.contents(str(tmp_path / "nowhere"), "data")["digest"] == ""


def test_of_many_reports_the_first_the_last_and_every_stage_are_kept() -> None:
    lines = [{"stage": "a" if place < 700 else "b", "figures": {"step": place}} for place in range(1000)]
    kept = sampler.thinned(lines)
    assert len(kept) <= sampler.MOST_REPORTS + 1
    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    assert lines[700] in kept
    last = sampler.thinned(lines, 1)
    assert last == [lines[700], lines[-1]], "of many only the last, and what begins a stage"


def test_gpus_that_it_was_given_are_found_by_index_or_by_name() -> None:
    gpus = [{"index": 0, "uuid": "GPU-aa"}, {"index": 1, "uuid": "GPU-bb"}]
    assert sampler.given(gpus, None) == [0, 1]
    assert sampler.given(gpus, "1") == [1]
    assert sampler.given(gpus, "GPU-aa") == [0]
    assert sampler.given(gpus, "1,0") == [1, 0]
    assert sampler.given(gpus, "") == []
    assert sampler.given(gpus[:1], "MIG-cc") == [0], "a part of the only one that is listed"


def test_nvidia_smi_is_read_and_what_it_does_not_know_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\ncase \"$*\" in\n*driver_version*) echo '0, V100, GPU-aa, 16384, 470.1';;\n"
        "*) while :; do echo '0, 80, 1024, [N/A]'; sleep 0.05; done;;\nesac\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    found = ran(a_bundle(tmp_path, s="import time\ntime.sleep(1)\n"), an_order((sys.executable, "s.py")))
    assert [gpu.name for gpu in found.node.gpus] == ["V100"]
    assert found.node.driver == "470.1"
    seen = [gpu for sample in found.samples for gpu in sample.gpus]
    assert seen
    assert {(gpu.use, gpu.memory, gpu.power, gpu.mine) for gpu in seen} == {(0.8, 1024.0 * 2**20, None, True)}


def test_a_record_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    ran(a_bundle(tmp_path, s="import time\ntime.sleep(0.5)\n"), an_order((sys.executable, "s.py")))
    text = (tmp_path / "out" / "record.jsonl").read_text()
    lines = text.splitlines()
    assert json.loads(lines[-1])["kind"] == "end"
    cut = records.read("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    assert cut.finish is None
    assert cut.samples
