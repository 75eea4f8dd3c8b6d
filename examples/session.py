"""Stands in for a notebook server: lives until it is stopped, or for SESSION_SECONDS (default 20)."""

import os
import signal
import threading

asked_to_end = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())

seconds = float(os.environ.get("SESSION_SECONDS", "20"))
print(f"session on GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}, open for {seconds:g} s", flush=True)
print("closed by request" if asked_to_end.wait(seconds) else "closed after its time", flush=True)
