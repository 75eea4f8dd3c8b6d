"""A pretended DCGM exporter of one machine: the text of real ones, over HTTP on loopback.

It has the dialects of real ones: `Hostname` of older releases, `hostname` of newer ones (which also tell
`pci_bus_id`); labels of pods that are absent, empty, or there; instances of partitioned GPUs (MIG). What a
GPU does not measure is not on the page. Its counters begin anew when one says so.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OLD, NEW = "Hostname", "hostname"

HELP = {
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %)."),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", "Memory utilization (in %)."),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_FB_FREE": ("gauge", "Framebuffer memory free (in MiB)."),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W)."),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Total energy consumption since boot (in mJ)."),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C)."),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered."),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", "Ratio of time the graphics engine is active."),
    "DCGM_FI_PROF_SM_ACTIVE": ("gauge", "The ratio of cycles an SM has at least 1 warp assigned."),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Ratio of cycles the device memory interface is active."),
}
SHORT = {name.removeprefix("DCGM_FI_DEV_").removeprefix("DCGM_FI_PROF_"): name for name in HELP}


@dataclass
class Gpu:
    """A GPU, or one instance of a partitioned one; `fields` by their short names (GPU_UTIL, …)."""

    number: int
    uuid: str
    fields: dict[str, float]
    instance: str = ""
    profile: str = ""
    pod: str | None = ""
    """`namespace/pod`; empty for nobody, None where the exporter knows nothing of pods."""
    stamp: float | None = None
    """When its values were true, if the exporter says it."""


@dataclass
class Exporter:
    """What its page says; change it as you like while it is served."""

    host: str | None
    dialect: str = OLD
    gpus: list[Gpu] = field(default_factory=list)
    broken: bool = False
    released: threading.Event | None = None
    """While set to an event, pages wait for it: the exporter hangs."""
    url: str = ""

    def page(self) -> str:
        lines = []
        for short, name in SHORT.items():
            told = [gpu for gpu in self.gpus if short in gpu.fields]
            if told:
                kind, text = HELP[name]
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
                lines += [f"{name}{{{self._labels(gpu)}}} {_written(gpu, short)}" for gpu in told]
        return "\n".join(lines) + "\n"

    def _labels(self, gpu: Gpu) -> str:
        labels = {"gpu": str(gpu.number), "UUID": gpu.uuid}
        if self.dialect == NEW:
            labels["pci_bus_id"] = f"00000000:0{gpu.number}:00.0"
        labels |= {"device": f"nvidia{gpu.number}", "modelName": "NVIDIA A100-SXM4-40GB"}
        if gpu.instance:
            labels |= {"GPU_I_PROFILE": gpu.profile, "GPU_I_ID": gpu.instance}
        if self.host is not None:
            labels[self.dialect] = self.host
        labels["DCGM_FI_DRIVER_VERSION"] = "525.60.13"
        if gpu.pod is not None:
            space, _, pod = gpu.pod.partition("/")
            labels |= {"container": "main" if pod else "", "namespace": space, "pod": pod}
        return ",".join(f'{name}="{value}"' for name, value in labels.items())


def _written(gpu: Gpu, short: str) -> str:
    value = gpu.fields[short]
    text = str(value) if float(value).is_integer() else f"{value:.6f}"
    return text if gpu.stamp is None else f"{text} {round(gpu.stamp * 1000)}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    exporter: Exporter


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        exporter = self.server.exporter
        if exporter.released is not None:
            exporter.released.wait()
        body = exporter.page().encode()
        self.send_response(500 if exporter.broken else 200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except BrokenPipeError:  # whoever asked has given up
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class Port:
    """A place on loopback where an exporter is served, now this one and then another."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self.place = f"127.0.0.1:{server.server_address[1]}"

    def serve(self, exporter: Exporter) -> None:
        exporter.url = f"http://{self.place}/metrics"
        self._server.exporter = exporter


@contextmanager
def a_port() -> Iterator[Port]:
    server = _Server(("127.0.0.1", 0), _Handler)
    server.exporter = Exporter(None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Port(server)
    finally:
        if server.exporter.released is not None:
            server.exporter.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def served(exporter: Exporter) -> Iterator[Exporter]:
    """Over HTTP on loopback, at `exporter.url`, until the end."""
    with a_port() as port:
        port.serve(exporter)
        yield exporter


def a_gpu(number: int, uuid: str, fields: Mapping[str, float], pod: str | None = "") -> Gpu:
    return Gpu(number, uuid, dict(fields), pod=pod)
