"""What the pretended driver of `fake_pynvml` says, for tests that change it as they go."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAKE = "tests.telemetry.fake_pynvml"
GIB = 1 << 30


def a_gpu(number: int, **changes: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{number}", "name": "NVIDIA A100", "memory": 80 * GIB, "used": 0, **changes}


def a_driver(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call it with GPUs to change what the driver says; at first there are two."""
    file = folder / "driver.json"
    root = Path(__file__).parents[2]
    monkeypatch.setenv("FAKE_NVML", str(file))
    monkeypatch.setenv("PYTHONPATH", f"{root / 'src'}{os.pathsep}{root}")

    def say(*gpus: dict[str, Any], **more: Any) -> None:
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"driver": "555.42", "gpus": gpus, **more}))
        new.replace(file)

    say(a_gpu(0), a_gpu(1))
    return say
