"""Run a script as `python SCRIPT ARGUMENTS` does, but end its process without finalizing the interpreter.

    python tests/live/without_finalization.py SCRIPT ARGUMENTS

On CPUs, PyTorch communicates with gloo. Its threads outlive `destroy_process_group` once a model was wrapped
in DistributedDataParallel. One that releases a tensor while the interpreter is finalized aborts the process
(pytorch/pytorch issue 190489): seldom, on a busy machine, after the script has done all its work. On GPUs,
NCCL has no such threads.
"""

import os
import runpy
import sys


def main() -> None:
    script = sys.argv[1]
    del sys.argv[0]
    sys.path[0] = os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # an exception of the script does not get here: its exit code stays


if __name__ == "__main__":
    main()
