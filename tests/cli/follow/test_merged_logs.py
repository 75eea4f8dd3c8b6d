"""The logs of a gang's workers as one."""

from dataclasses import dataclass, field

import pytest

from grus.api.wire_types.job import JobOut
from grus.cli.follow import merged_logs as merged
from grus.cli.follow.merged_logs import MergedLogs
from grus.model.errors import NotFound
from tests.cli.fake import a_job


@dataclass
class Gang:
    """Workers whose logs grow by the next piece at each pause; None ends the job, a number is an attempt."""

    logs: list[bytes]
    coming: list[tuple[int, bytes] | int | None] = field(default_factory=list)
    attempt: int = 1
    earlier: list[bytes] = field(default_factory=list)
    """Logs of the attempt before."""
    phase: str = "running"

    def job(self, id: str) -> JobOut:
        return a_job(id, phase=self.phase, attempt=self.attempt)

    def log(
        self, id: str, *, worker: int, offset: int = 0, limit: int = 4, attempt: int | None = None
    ) -> tuple[bytes, int]:
        logs = self.logs if attempt in (None, self.attempt) else self.earlier
        if worker >= len(logs):
            raise NotFound(f"no worker {worker}")
        data = logs[worker][offset : offset + limit]
        return data, offset + len(data)

    def next(self, _: float) -> None:
        match self.coming.pop(0):
            case None:
                self.phase = "succeeded"
            case int(attempt):
                self.attempt, self.logs, self.earlier = attempt, [b"again\n"], [*self.logs, b"late\n"]
            case (worker, text):
                self.logs[worker] += text


def so_far(gang: Gang) -> str:
    return "".join(MergedLogs(gang, "j1").so_far())  # type: ignore[arg-type]  # a stand-in


def followed(gang: Gang) -> list[str]:
    return list(MergedLogs(gang, "j1").follow(gang.next))  # type: ignore[arg-type]  # a stand-in


def test_what_is_there_is_told_worker_by_worker_in_whole_lines() -> None:
    gang = Gang([b"one\ntwo\n", b"", b"\xff unfinished"])
    assert so_far(gang) == "[worker 0] one\n[worker 0] two\n[worker 2] \ufffd unfinished\n"


def test_following_goes_round_until_the_job_has_ended_and_never_mixes_lines() -> None:
    gang = Gang([b"a", b"b"], [(0, b"A\n"), (1, b"B\nrest"), None])
    assert followed(gang) == ["[worker 0] aA\n", "[worker 1] bB\n", "[worker 1] rest\n"]


def test_an_attempt_is_told_to_its_end_and_the_next_from_its_beginning() -> None:
    gang = Gang([b"first"], [2, None])
    assert followed(gang) == ["[worker 1] late\n", "[worker 0] first\n", "[worker 0] again\n"]


def test_one_attempt_alone_is_followed_to_its_end() -> None:
    gang = Gang([b"first\n"], [(0, b"more\n"), 2, None])
    merged = MergedLogs(gang, "j1", 1, only=True)  # type: ignore[arg-type]  # a stand-in
    assert list(merged.follow(gang.next)) == ["[worker 0] first\n", "[worker 0] more\n", "[worker 1] late\n"]
    assert gang.attempt == 2


def test_a_line_without_an_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged, "LONGEST_LINE", 6)
    assert so_far(Gang([b"x" * 10])) == "[worker 0] xxxxxxxx\n[worker 0] xx\n"
