"""Stands in for a notebook server: lives until it is stopped, or for SESSION_SECONDS (default 20)."""

import os
import signal

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # it is heard where it is waited for

seconds = float(os.environ.get("SESSION_SECONDS", "20"))
print(f"session on GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}, open for {seconds:g} s", flush=True)
asked_to_end = signal.sigtimedwait({signal.SIGTERM}, seconds)
print("closed by request" if asked_to_end else "closed after its time", flush=True)
