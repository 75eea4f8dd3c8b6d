"""Work in a child process: its answer, its progress, its limits, and that nothing of it stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from grus.estimation.estimate_subprocess import USUAL, Limits, run
from grus.model.errors import BadInput, DoesNotFit, GrusError

WORK = "tests.estimation.child_work"


@pytest.fixture(autouse=True)
def _the_tests_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", str(here), prepend=os.pathsep)
    monkeypatch.delenv("GRUS_DEBUG", raising=False)


def ask(name: str, folder: Path, limits: Limits = USUAL, **arguments: object) -> object:
    return run(f"{WORK}:{name}", arguments, what="train.py:make", folder=folder, limits=limits)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(*pids: int) -> None:
    living = [psutil.Process(pid) for pid in pids if not gone(pid)]
    _, left = psutil.wait_procs(living, timeout=300)
    assert all(gone(process.pid) for process in left)


def test_the_answer_comes_back_and_progress_on_the_way(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []
    answer = run(
        f"{WORK}:added", {"numbers": [1, 2, 3]}, what="train.py:make", folder=tmp_path, tell=told.append
    )
    assert answer == {"total": 6, "parts": [1, 2, 3]}
    assert told == ["loading torch", "adding 1", "adding 2", "adding 3"]
    assert capfd.readouterr() == ("", "")


def test_a_large_answer_comes_back_whole(tmp_path: Path) -> None:
    assert ask("repeated", tmp_path, number=7, times=200_000) == [7] * 200_000


def test_it_runs_in_the_folder_without_gpus_and_without_input(tmp_path: Path) -> None:
    assert ask("where", tmp_path) == [str(tmp_path.resolve()), "", ""]


def test_an_error_of_the_users_code_is_bad_input_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"train.py:make: raised KeyError: 'so'\n.*child_work.py.*in raising"):
        ask("raising", tmp_path, words="so")


def test_an_error_that_people_are_meant_to_read_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFit, match="nothing is large enough"):
        ask("too_large", tmp_path)


def test_what_never_ends_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    with pytest.raises(BadInput, match="did not end within 2s while counting; is it stuck"):
        ask("endless", tmp_path, Limits(seconds=2), pid_file=str(file))
    wait_until_gone(*map(int, file.read_text().split()))


def test_what_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="took more than 200MB of this machine's memory while hoarding"):
        ask("greedy", tmp_path, Limits(memory=200_000_000))


@pytest.mark.parametrize("code", [0, 7])
def test_a_process_that_just_leaves_is_told_with_its_last_words(tmp_path: Path, code: int) -> None:
    with pytest.raises(BadInput, match=f"ended the process with code {code} while leaving\n  the last words"):
        ask("leaving", tmp_path, code=code)


def test_a_crash_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="was ended by SIGSEGV"):
        ask("crashing", tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="folder: cannot be used"):
        ask("added", tmp_path / "none", numbers=[])


def test_files_beside_the_users_code_do_not_stand_in_for_libraries(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not this one')")
    assert ask("added", tmp_path, numbers=[4]) == {"total": 4, "parts": [4]}


def test_a_child_dies_with_whoever_asked(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    code = (
        "import sys; from pathlib import Path; from grus.estimation.estimate_subprocess import run\n"
        f"run('{WORK}:endless', dict(pid_file={str(file)!r}), what='w', folder=Path.cwd(), "
        "tell=lambda words: print(words, flush=True))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        assert [asker.stdout.readline() for _ in range(2)] == ["loading torch\n", "counting\n"]
        child, other = map(int, file.read_text().split())
        asker.kill()
    wait_until_gone(child)
    psutil.Process(other).kill()


def test_without_torch_it_is_said_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    with pytest.raises(GrusError, match=r"train.py:make: needs torch.*pip install 'grus-gpu\[torch\]'"):
        run("grus.estimation.script_loader:load", {}, what="train.py:make", folder=tmp_path)


def test_asking_a_child_imports_no_torch() -> None:
    code = "import sys, json, grus.estimation.estimate_subprocess; print(json.dumps('torch' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) is False
