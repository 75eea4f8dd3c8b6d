"""Pretend GPUs on a real node: a device plugin of the kubelet, run by node.py with its folder as argument.

Which GPUs there are stands in the node's file `gpus.json`, {id: whether healthy}, and is read again when it
changes. A container gets the ids of its GPUs in NVIDIA_VISIBLE_DEVICES. The messages of the device plugin API
(v1beta1) are so few and small that their protobuf is written by hand here: no generated code, no proto files.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from contextlib import suppress
from pathlib import Path

import grpc

SOCKETS = Path("/var/lib/kubelet/device-plugins")  # a constant of the kubelet
SOCKET = "grus.sock"
LOOK = 0.5
"""Seconds between two looks at the file and at the socket."""


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes | str) -> bytes:
    """One field that has a length: a string or a message in a message."""
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field; the requests that we get hold only such with a length."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(message):
        key = number()
        length = number()
        yield key >> 3, message[at : at + length]
        at += length


def devices(gpus: Mapping[str, bool]) -> bytes:
    """A ListAndWatchResponse: devices = 1, each with ID = 1 and health = 2."""
    healths = ((name, "Healthy" if healthy else "Unhealthy") for name, healthy in gpus.items())
    return b"".join(field(1, field(1, name) + field(2, health)) for name, health in healths)


def allocated(request: bytes) -> bytes:
    """An AllocateResponse to an AllocateRequest: each container's devicesIDs as an environment variable."""
    answer = b""
    for _, container in fields(request):
        ids = ",".join(name.decode() for _, name in fields(container))
        answer += field(1, field(1, field(1, "NVIDIA_VISIBLE_DEVICES") + field(2, ids)))
    return answer


def watched(file: Path, context: grpc.ServicerContext) -> Iterator[bytes]:
    """The devices now and at each change of the file, until the kubelet hangs up."""
    told: Mapping[str, bool] | None = None
    while context.is_active():
        with suppress(ValueError):  # half written: the next look sees the rest
            gpus = json.loads(file.read_text())
            if gpus != told:
                told = gpus
                yield devices(gpus)
        time.sleep(LOOK)


def handlers(file: Path) -> grpc.GenericRpcHandler:
    nothing: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(
        lambda _request, _context: b""
    )
    methods = {
        "GetDevicePluginOptions": nothing,
        "PreStartContainer": nothing,
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(
            lambda _request, context: watched(file, context)
        ),
        "Allocate": grpc.unary_unary_rpc_method_handler(lambda request, _context: allocated(request)),
    }
    return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)


def register(resource: str) -> None:
    """A RegisterRequest: version = 1, endpoint = 2, resource_name = 3."""
    with grpc.insecure_channel(f"unix://{SOCKETS}/kubelet.sock") as kubelet:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = kubelet.unary_unary(
            "/v1beta1.Registration/Register"
        )
        request = field(1, "v1beta1") + field(2, SOCKET) + field(3, resource)
        call(request, timeout=30, wait_for_ready=True)


def main() -> int:
    folder, resource = Path(sys.argv[1]), sys.argv[2]
    socket = SOCKETS / SOCKET
    while not (
        SOCKETS / "kubelet.sock"
    ).exists():  # a kubelet that starts removes what is there before its own
        time.sleep(0.1)
    socket.unlink(missing_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((handlers(folder / "gpus.json"),))
    server.add_insecure_port(f"unix://{socket}")
    server.start()
    register(resource)
    # A kubelet that starts anew empties the folder of sockets and forgets its plugins: begin again.
    while socket.exists():
        time.sleep(LOOK)
    os._exit(0)  # without waiting for the streams that the kubelet still holds


if __name__ == "__main__":
    sys.exit(main())
