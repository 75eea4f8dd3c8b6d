"""A Ray cluster out of the workers of one Grus job: every one of them runs this, and it joins or leads.

Grus says who is who (GRUS_ROLE, WORLD_SIZE), where to meet (MASTER_ADDR, MASTER_PORT) and which GPUs are
one's own (CUDA_VISIBLE_DEVICES, LOCAL_RANK). The launcher starts Ray's head there, waits until everybody has
joined, and runs the program that its arguments name, with RAY_ADDRESS set; its exit code is the job's.

    python3 cluster.py python3 program.py     the launcher
    python3 cluster.py                        each worker
    python3 cluster.py --all-gpus             a worker with several GPUs of its own

Nothing here calls `ray stop`: that would end the clusters of other jobs on the same machine too.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

PATIENCE = 300.0
"""Seconds for everybody to join; Grus starts a gang together, so this is Ray's own time."""
GRACE = 3.0
"""Seconds for Ray to drain a node at the end; less than what Grus leaves the others when one has failed."""
CPUS = int(os.environ.get("RAY_NUM_CPUS", 1))
"""Cores that each node offers to tasks. Ray would count the whole machine, once for each worker on it."""
OBJECT_STORE = int(os.environ.get("RAY_OBJECT_STORE_MEMORY", 200_000_000))
"""Bytes of shared memory a node. By default Ray takes a third of the machine's, and each worker is a node."""


def main() -> int:
    words = sys.argv[1:]
    all_gpus = "--all-gpus" in words[:1]
    program = words[1:] if all_gpus else words
    devices = own_devices(all_gpus)
    # A request of Grus to end is SIGTERM: leave by the way of `finally`, so that Ray's processes go as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return lead(program, devices) if os.environ["GRUS_ROLE"] == "launcher" else join(devices)


def own_devices(all_gpus: bool) -> list[str]:
    """The GPUs of this worker. With one each, workers on a node see those of their peers too, in the order of
    LOCAL_RANK: for torch that is right, for Ray each must offer its own alone."""
    visible = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    if all_gpus or not visible:
        return visible
    return [visible[int(os.environ["LOCAL_RANK"])]]


def lead(program: list[str], devices: list[str]) -> int:
    folder = f"/tmp/grus-ray-{os.environ['GRUS_JOB']}-{os.environ['GRUS_ATTEMPT']}"
    head = start("--head", f"--port={os.environ['MASTER_PORT']}", f"--temp-dir={folder}", devices=devices)
    try:
        wait_for_all(head)
        print(f"Ray has {os.environ['WORLD_SIZE']} nodes at {address()}", flush=True)
        return subprocess.run(program, env={**os.environ, "RAY_ADDRESS": address()}, check=False).returncode
    finally:
        end(head)
        shutil.rmtree(folder, ignore_errors=True)


def join(devices: list[str]) -> int:
    """Ray gives a node 30 s to get up, which a busy machine may take longer for: then it is tried again."""
    end_at = time.monotonic() + PATIENCE
    while True:
        wait_for_head(end_at)
        node = start(f"--address={address()}", devices=devices)
        try:
            code = node.wait()
        finally:
            end(node)
        if code == 0 or time.monotonic() > end_at:
            return code
        print(f"the Ray node ended with code {code}; once more", flush=True)


def wait_for_head(end_at: float) -> None:
    while True:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 5).close()
            return
        except OSError as error:
            if time.monotonic() > end_at:
                raise SystemExit(f"Ray's head does not answer at {address()}: {error}") from error
        time.sleep(0.5)


def address() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def start(*options: str, devices: list[str]) -> "subprocess.Popen[bytes]":
    """Ray's own processes of one node, which last as long as this child."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options]
    command += [f"--node-ip-address={os.environ['GRUS_HOST']}", f"--num-cpus={CPUS}"]
    command.append(f"--num-gpus={len(devices)}")
    command += [f"--object-store-memory={OBJECT_STORE}", "--disable-usage-stats"]
    # Several nodes may be on one machine: none may insist on a port.
    command += ["--min-worker-port=0", "--max-worker-port=0"]
    if "--head" in options:
        command.append("--include-dashboard=false")
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(devices), "RAY_DISABLE_IMPORT_WARNING": "1"}
    return subprocess.Popen(command, env=env)


def wait_for_all(head: "subprocess.Popen[bytes]") -> None:
    """Until as many nodes are alive as Grus has started workers. Raises if the head ends or time runs out."""
    import ray

    wanted, end_at = int(os.environ["WORLD_SIZE"]), time.monotonic() + PATIENCE
    joined, trouble = 0, "nobody answers"
    while joined < wanted:
        if head.poll() is not None:
            raise SystemExit(f"Ray's head ended with code {head.returncode}; see above")
        if time.monotonic() > end_at:
            raise SystemExit(f"{joined} of {wanted} Ray nodes after {PATIENCE:.0f} s: {trouble}")
        time.sleep(0.5)
        try:
            if not ray.is_initialized():
                ray.init(address=address(), log_to_driver=False, logging_level="ERROR")
            joined = sum(node["Alive"] for node in ray.nodes())
        except (ConnectionError, RuntimeError, ValueError) as error:  # the head is not up yet
            trouble = str(error)
    ray.shutdown()


def end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
