"""Versions and GPUs of this machine, as the page of results names them."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from grus.engines.local.gpu_device_binding import find_mps
from grus.telemetry.nvidia_nvml import PATIENCE, DriverTimeout, Probe

ASK_TORCH = (
    "import json, torch; cuda = torch.cuda.is_available(); nccl = torch.cuda.nccl.version() if cuda else ();"
    "print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda or '', 'gpus':"
    " torch.cuda.device_count() if cuda else 0, 'nccl': '.'.join(map(str, nccl))}))"
)
LONGEST = 180.0
"""Seconds for the import of torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts that decide which checks can run here, and that a reader of the results needs."""

    grus: str = ""
    python: str = ""
    system: str = ""
    driver: str = ""
    """Version of NVIDIA's driver; empty without one."""
    gpus: tuple[str, ...] = ()
    """Types, by NVML."""
    torch: str = ""
    cuda: str = ""
    nccl: str = ""
    torch_gpus: int = 0
    mps: bool = False

    def versions(self) -> list[tuple[str, str]]:
        kinds = [f"{self.gpus.count(kind)} × {kind}" for kind in dict.fromkeys(self.gpus)]
        return [
            ("grus", self.grus),
            ("python", self.python),
            ("system", self.system),
            ("driver", self.driver or "none"),
            ("GPUs", ", ".join(kinds) or "none"),
            ("torch", self.torch or "not installed"),
            ("CUDA of torch", self.cuda or "none"),
            ("NCCL", self.nccl or "none"),
            ("MPS daemon", "runs" if self.mps else "none"),
        ]


def survey() -> Machine:
    """Look at this machine; may take seconds."""
    driver, kinds = _nvml()
    report = _torch()
    return Machine(
        grus=_version(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        driver=driver,
        gpus=kinds,
        torch=str(report.get("torch", "")),
        cuda=str(report.get("cuda", "")),
        nccl=str(report.get("nccl", "")),
        torch_gpus=int(report.get("gpus", 0)),
        mps=find_mps(os.environ) is not None,
    )


def _version() -> str:
    try:
        return version("grus-gpu")
    except PackageNotFoundError:
        return "from its sources"


def _nvml() -> tuple[str, tuple[str, ...]]:
    probe = Probe("pynvml")
    try:
        driver, readings, _ = probe.ask(PATIENCE)
    except DriverTimeout:
        return "", ()
    finally:
        probe.end()
    return driver, tuple(reading.type for reading in readings)


def _torch() -> dict[str, str]:
    try:
        asked = subprocess.run(
            [sys.executable, "-c", ASK_TORCH], capture_output=True, text=True, timeout=LONGEST, check=False
        )
        found: dict[str, str] = json.loads(asked.stdout) if asked.returncode == 0 else {}
    except (subprocess.TimeoutExpired, ValueError):
        return {}
    return found
