"""Checkpoints of a run: saved in the background while training continues; the newest whole one is loaded.

A save copies the state to main memory at once and writes it in a separate thread, one at a time. A failed
save is reported at the next call and has no other effect: training continues, and earlier checkpoints stay.
`checkpoint_files` defines the layout on disk.
"""

import contextlib
import copy
import errno
import logging
import pickle
import shutil
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from grus.elastic.training_state import checkpoint_files as files
from grus.model.errors import GrusError

log = logging.getLogger(__name__)

_PLAIN: tuple[type[Any], ...] = (bool, int, float, complex, str, bytes)
_AS_THEY_ARE: tuple[type[Any], ...] = (*_PLAIN, type(None), torch.dtype, torch.device, torch.Size)
_ADVICE = {
    errno.EACCES: "this user may not write there. Change its owner or mode, or name another folder",
    errno.EPERM: "this user may not write there. Change its owner or mode, or name another folder",
    errno.EROFS: "the file system is read-only. Name another folder",
    errno.ENOSPC: "the disk is full. Make room, or name a folder on another disk",
    errno.EDQUOT: "the quota is used up. Make room, or name a folder on another disk",
    errno.EFBIG: "the file is larger than this process may write (ulimit -f). Raise the limit",
    errno.ENOTDIR: "it, or a part of its path, is not a folder. Name another one",
    errno.ENOENT: "it is gone. Make it again; nothing is saved until then",
}


class CheckpointError(GrusError):
    """A checkpoint could not be saved, or never will be as things are. Names the folder and the fix."""

    code: ClassVar[str] = "checkpoint"


class Checkpoints:
    """The checkpoints of one run. Used by one thread; several processes may share the folder."""

    def __init__(self, folder: Path, keep: int = 2, on_saved: Callable[[int], None] | None = None) -> None:
        self.folder = Path(folder)
        self.on_saved = on_saved
        """Called with the step when it is durable, from the thread that writes."""
        self._keep = max(1, keep)
        self._thread: threading.Thread | None = None
        self._error: CheckpointError | None = None
        self._whole: set[str] = set()
        """Names of those that this process wrote, or verified once."""

    def check(self, size: int = 0) -> None:
        """Check that saving will work, before training starts; `size` is that of one checkpoint, in bytes.

        Creates the folder if only the folder itself is missing, and touches no checkpoint in it.
        """
        self._make()
        try:
            files.try_out(self.folder)
            files.sweep(self.folder)
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise self._explained(error) from error
        if free < size:
            raise CheckpointError(
                f"the checkpoint folder {self.folder} cannot be used: {free / 1e9:.2f} GB are left on its "
                f"disk and one checkpoint needs about {size / 1e9:.2f} GB. Make room, or name another folder"
            )

    def save(self, step: int, state: dict[str, Any], wait: bool = False) -> bool:
        """Start a save; the state may change as soon as this returns. Return whether the save was started.

        While another one is being written this one is skipped, or waits for it. `wait()` afterwards returns
        whether it succeeded; otherwise a failure is a warning at the next call.
        """
        if self._thread is not None and self._thread.is_alive() and not wait:
            return False
        error = self._finish()
        if error is not None:
            log.warning("%s. Training goes on; earlier checkpoints are untouched", error)
        copied = snapshot(state)
        # Not a daemon: a program that ends in the middle of a save finishes it.
        self._thread = threading.Thread(target=self._write, args=(step, copied), name="checkpoint")
        self._thread.start()
        return True

    def wait(self) -> None:
        """Return when nothing is being written; raises what went wrong with the last save."""
        error = self._finish()
        if error is not None:
            raise error

    def load(self) -> tuple[int, dict[str, Any]] | None:
        """The newest whole one, with its step; damaged ones are skipped with a warning that names them."""
        skipped: set[str] = set()
        while True:
            waiting = [path for path in files.found(self.folder) if path.name not in skipped]
            if not waiting:
                break
            try:
                return self._read(waiting[0])
            except files.Damaged as damage:
                # A path that is gone was old, and was removed by another worker that has saved since.
                if waiting[0].exists():
                    log.warning("the checkpoint %s is skipped: %s", waiting[0], damage)
                skipped.add(waiting[0].name)
            except OSError as error:
                raise self._explained(error) from error
        if skipped:
            log.error("no checkpoint in %s is whole: the run starts from its beginning", self.folder)
        return None

    def _read(self, path: Path) -> tuple[int, dict[str, Any]]:
        step = files.verify(path)
        try:
            state = torch.load(path / files.STATE, map_location="cpu", weights_only=True)
        except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
            raise files.Damaged(f"torch cannot read it: {error}") from error
        self._whole.add(path.name)
        return step, state

    def _write(self, step: int, state: dict[str, Any]) -> None:
        """The life of the thread."""
        try:
            path = files.place(self.folder, step, lambda file: torch.save(state, file))  # type: ignore[arg-type]  # torch needs no more than `Sink` of a file
        except OSError as error:
            self._error = self._explained(error, step)
            return
        except Exception as error:  # noqa: BLE001 - the edge of the thread; told at the next call
            self._error = CheckpointError(f"saving step {step} to {self.folder} failed: {error!r}")
            self._error.__cause__ = error
            return
        try:
            self._whole.add(path.name)
            if self.on_saved is not None:
                self.on_saved(step)
            self._clear()
        except Exception:
            log.warning("step %d is saved, but not all that follows was done", step, exc_info=True)

    def _clear(self) -> None:
        """Keep the newest whole ones and what is newer; the rest goes, and what dead writers left."""
        whole = 0
        for path in files.found(self.folder):
            if whole == self._keep:
                files.remove(path)
            elif path.name in self._whole or files.is_whole(path):
                self._whole.add(path.name)
                whole += 1
        files.sweep(self.folder)

    def _finish(self) -> CheckpointError | None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        return error

    def _make(self) -> None:
        parent = self.folder.absolute().parent
        try:
            self.folder.mkdir()
            with contextlib.suppress(PermissionError):  # a parent that may be written, but not read
                files.sync(parent)
        except FileExistsError as error:
            if not self.folder.is_dir():
                raise CheckpointError(
                    f"the checkpoint folder {self.folder} is a file. Name another folder, or move it away"
                ) from error
        except FileNotFoundError as error:
            raise CheckpointError(
                f"the checkpoint folder {self.folder} cannot be made: its parent {parent} does not exist. "
                "Make it, or name another folder"
            ) from error
        except OSError as error:
            raise self._explained(error) from error

    def _explained(self, error: OSError, step: int | None = None) -> CheckpointError:
        advice = _ADVICE.get(error.errno or 0, str(error))
        what = "cannot be used" if step is None else f"did not take step {step}"
        told = CheckpointError(f"the checkpoint folder {self.folder} {what}: {advice}")
        told.__cause__ = error
        return told


def snapshot(state: dict[str, Any]) -> dict[str, Any]:
    """A copy in main memory that later steps do not change; tensors that are one stay one.

    Only what `torch.load(weights_only=True)` reads again is taken: better an error at the first save than a
    checkpoint that cannot be loaded.
    """
    copied: dict[str, Any] = _copied(state, "state", {})
    return copied


def _copied(value: Any, where: str, seen: dict[tuple[object, ...], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return _copied_tensor(value, seen)
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Mapping):
        return _copied_mapping(value, where, seen)
    if isinstance(value, (list, tuple, set)):
        kind = next(kind for kind in (list, tuple, set) if isinstance(value, kind))
        return kind(_copied(part, f"{where}[{number}]", seen) for number, part in enumerate(value))
    for plain in _PLAIN:  # enumerations, NumPy's float64
        if isinstance(value, plain):
            return plain(value)
    if getattr(value, "ndim", None) == 0:  # the other numbers of NumPy
        return value.item()
    raise CheckpointError(
        f"{where} is a {type(value).__module__}.{type(value).__qualname__}, which no checkpoint keeps: "
        "only tensors, numbers, texts, and dicts, lists, tuples and sets of them. Turn it into one of these"
    )


def _copied_mapping(
    value: Mapping[Any, Any], where: str, seen: dict[tuple[object, ...], torch.Tensor]
) -> Any:
    parts = {
        _copied(key, where, seen): _copied(part, f"{where}[{key!r}]", seen) for key, part in value.items()
    }
    if isinstance(value, (OrderedDict, Counter)):
        clone = copy.copy(value)  # with its attributes: a module's state has its versions there
        dict.update(clone, parts)
        return clone
    return parts


def _copied_tensor(value: torch.Tensor, seen: dict[tuple[object, ...], torch.Tensor]) -> torch.Tensor:
    if value.layout is not torch.strided or not value.data_ptr():
        return value.detach().to("cpu", copy=True)
    same = (value.device, value.data_ptr(), value.shape, value.stride(), value.dtype)
    if same not in seen:
        seen[same] = value.detach().to("cpu", copy=True)
    return seen[same]
