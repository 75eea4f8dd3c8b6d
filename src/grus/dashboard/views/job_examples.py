"""Job files to begin with, on the Submit page. Each is a whole one that runs as it is, but for its script."""

HELLO = """\
# Runs anywhere: counts for half a minute on one GPU. Change it, look at the plan on the right, submit.
name: hello
run: for i in $(seq 30); do echo "step $i on GPU $CUDA_VISIBLE_DEVICES"; sleep 1; done
resources:
  gpu: 1
max_runtime: 10m
"""

SCRIPT = """\
# A script on one GPU. Paused, it saves itself to `checkpoint` and later goes on from there.
name: train
run: python3 train.py --epochs 20
resources:
  gpu: 1
checkpoint:
  path: out/train
  grace: 30s
retries: 2
max_runtime: 8h
"""

ELASTIC = """\
# Two to eight GPUs: starts with what is free, grows when more are, shrinks when others need theirs.
name: elastic
run: python3 train.py
resources:
  gpu: 2..8
checkpoint:
  path: out/elastic
  every: 5m
max_runtime: 1d
"""

FRACTION = """\
# Half a GPU: another job may have the other half. `gpu: 12GB` asks for memory instead.
name: small
run: python3 small.py
resources:
  gpu: 0.5
max_runtime: 2h
"""

SESSION = """\
# A session to build in: starts at once inside the quota, is never preempted, is paused if nobody uses it.
name: session
type: dev
run: python3 -m http.server 8888
resources:
  gpu: 1
idle: {below: 5%, for: 30m, action: pause}
max_runtime: 8h
"""

STAGES = """\
# Two jobs of one file: the second takes what the first leaves, and waits for it.
queue: default
stages:
  prepare:
    run: python3 prepare.py --out "$GRUS_OUTPUT_DATA"
    resources: {gpu: 0}
    outputs: [data]
  fit:
    run: python3 train.py --data "$GRUS_INPUT_DATA"
    inputs: {data: prepare.data}
    resources: {gpu: 1..4}
    checkpoint: {path: out/fit}
"""

SWEEP = """\
# A search for good parameters: trials on a quarter of a GPU each; those that promise little are ended early.
# The script reads them with grus.params() and tells how it does with grus.report(step=..., loss=...).
name: tune
type: sweep
run: python3 train.py
resources:
  gpu: 0.25
sweep:
  metric: loss
  space:
    lr: {log: [1.0e-5, 1.0e-1]}
    width: [64, 128, 256]
  sampler: random
  budget: {trials: 50}
"""

EXAMPLES = (
    ("A first job", HELLO),
    ("A script on one GPU", SCRIPT),
    ("Elastic: 2 to 8 GPUs", ELASTIC),
    ("Half a GPU", FRACTION),
    ("A session to build in", SESSION),
    ("Stages", STAGES),
    ("A search for parameters", SWEEP),
)
