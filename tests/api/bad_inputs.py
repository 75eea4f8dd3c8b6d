"""Bad job files, and every mistake that must be named for each: none missing, none invented.

The same table is used against the parser, the server and the command line.
"""

from dataclasses import dataclass
from typing import Any

from grus.api.parsing.yaml_document import read_documents


@dataclass(frozen=True, slots=True)
class Expected:
    """A mistake that must be told: its field, words of its rule, its line (None where there is none)."""

    field: str
    words: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class BadJob:
    name: str
    text: str | bytes
    mistakes: tuple[Expected, ...]
    form: bool = False
    """The mistake is one of the file itself: the same job as JSON would be right, or cannot be written."""

    def request(self) -> Any:
        """The same job as the body of a request; None where the mistake is one of the file's form."""
        if self.form:
            return None
        documents, _ = read_documents(self.text, is_text=lambda _: False)
        return documents[0].value


def bad(name: str, text: str | bytes, *mistakes: tuple[str, str, int | None], form: bool = False) -> BadJob:
    return BadJob(name, text, tuple(Expected(*mistake) for mistake in mistakes), form)


_FORM = [
    bad("empty file", "", ("file", "is empty", None), form=True),
    bad("only a comment", "# nothing here\n", ("file", "is empty", None), form=True),
    bad("list at the top", "- run: a\n- run: b\n", ("file", "this is a list", 1), form=True),
    bad("a word at the top", "train.py\n", ("file", "must be a mapping", 1), form=True),
    bad("binary", b"\x89PNG\r\n\x1a\n\x00\xff\xfe", ("file", "is not text", None), form=True),
    bad("NUL characters", "run: a\0b\n", ("file", "NUL", None), form=True),
    bad("control character", "run: a\nname: \x07x\n", ("file", "control", 2), form=True),
    bad("too large", "# " + "x" * (1024 * 1024) + "\nrun: a\n", ("file", "at most 1 MiB", None), form=True),
    bad("tab", "run: a\nresources:\n\tgpu: 4\n", ("file", "indented with a tab", 3), form=True),
    bad("colon in a value", "name: a\nrun: echo a: b\n", ("file", "in quotes", 2), form=True),
    bad("open quote", "run: 'python\n", ("file", "is not YAML", 1), form=True),
    bad(
        "no space after the colon", "name: a\nrun:x\nqueue: b\n", ("file", "colon and a space", 2), form=True
    ),
    bad("too deep", "run: " + "[" * 5000, ("file", "levels deep", 1), form=True),
    bad(
        "alias bomb of one long text",
        f"a: &a {'x' * 100_000}\nrun: [{', '.join(['*a'] * 8000)}]\n",
        ("file", "characters (aliases counted each time)", 2),
        form=True,
    ),
    bad(
        "alias bomb",
        "a: &a [x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{b}: &{b} [{', '.join(['*' + a] * 8)}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
        ),
        ("file", "more than 20000 values", 5),
        form=True,
    ),
    bad("alias of itself", "run: &a [*a]\n", ("file", "stands for nothing", 1), form=True),
    bad(
        "key given twice",
        "run: a\nqueue: x\nrun: b\n",
        ("run", "twice, on line 1 and on line 3", 3),
        form=True,
    ),
    bad(
        "nested key given twice, and more",
        "run: a\nretries: many\nenv:\n  A: 1\n  B: 2\n  A: 3\n",
        ("retries", "whole number from 0 to 100", 2),
        ("env.A", "twice, on line 4 and on line 6", 6),
        form=True,
    ),
    bad("field without a value", "run: a\nqueue:\n", ("queue", "has no value", 2), form=True),
    bad("nothing to run, empty", "run:\n", ("run", "has no value", 1), form=True),
    bad("variable without a value", "run: a\nenv:\n  A:\n", ("env.A", "has no value", 3), form=True),
    bad("merge key", "run: a\n<<: {queue: b}\n", ("<<", "merging", 2), form=True),
    bad("a tag", "run: !!python/object/apply:os.system [ls]\n", ("run", "has a tag", 1), form=True),
    bad("a list as a key", "run: a\n? [x]\n: y\n", ("file", "as a key", 2), form=True),
    bad(
        "stages in the wrong order",
        "name: a\nrun: x\nafter: [b]\n---\nname: b\nrun: y\nafter: [b, c]\n---\nname: a\nrun: z\n",
        ("after[0]", "later stage", 3),
        ("after[0]", "the job itself", 7),
        ("after[1]", "no earlier stage", 7),
        ("name", "another stage of this file (line 1)", 9),
        form=True,
    ),
    bad(
        "stages that wait for each other",
        "stages:\n  a: {run: x, after: [c]}\n  b:\n    run: x\n    inputs: {d: a.d}\n"
        "  c: {run: x, after: [b]}\n"
        "  e: {run: x, after: [f]}\n  f: {run: x, after: [e, f]}\n",
        ("stages.a.after[0]", "in a circle, so that none can start: a → c → b → a", 2),
        ("stages.b.inputs.d", "stage a has no output d: it has none; give it outputs: [d]", 5),
        ("stages.e.after[0]", "in a circle, so that none can start: e → f → e", 7),
        ("stages.f.after[1]", "the job itself", 8),
        form=True,
    ),
    bad(
        "inputs that nobody leaves",
        "stages:\n  prepare: {run: x, outputs: [data, more]}\n"
        "  train:\n    run: x\n    inputs:\n      a: prepare.dat\n      b: prepar.data\n      c: data\n"
        "      D: prepare.data\n",
        ("stages.train.inputs.a", "stage prepare has no output dat: it leaves data, more", 6),
        (
            "stages.train.inputs.b",
            "names no stage of this file, and is not the id of a job; did you mean prepare?",
            7,
        ),
        ("stages.train.inputs.c", "STAGE.OUTPUT, such as prepare.data", 8),
        ("stages.train.inputs.D", "its name must be 1 to 63 small letters", 9),
        form=True,
    ),
    bad(
        "outputs that are none",
        "stages:\n  a: {run: x, outputs: [d, d]}\n  b: {run: x, outputs: {m: ../m, n: /n, p: out/p}}\n"
        "  c: {run: x, outputs: [A]}\n",
        ("stages.a.outputs", "names an output twice", 2),
        ("stages.b.outputs.m", "below the workdir", 3),
        ("stages.b.outputs.n", "below the workdir", 3),
        ("stages.c.outputs[0]", "small letters", 4),
        form=True,
    ),
    bad(
        "what is shared by the stages, and what is not",
        "queue: Vision\nname: x\nenv: {1A: b}\nrun: y\nstages:\n  a: {run: x, name: b, env: {2B: c}}\n"
        "  B: {run: x}\n  c: 3\n  d: {}\n",
        ("queue", "small letters", 1),
        ("name", "belongs to a stage", 2),
        ("env.1A", "letters, digits and _", 3),
        ("run", "belongs to a stage", 4),
        ("stages.a.name", "its key under stages", 6),
        ("stages.a.env.2B", "letters, digits and _", 6),
        ("stages.B", "a stage's name must be 1 to 63 small letters", 7),
        ("stages.c", "must be a mapping", 8),
        ("stages.d.run", "is needed", 9),
        form=True,
    ),
    bad("no stages", "stages: {}\n", ("stages", "must be a mapping from a stage's name", 1), form=True),
    bad(
        "a list of stages", "stages: [a]\n", ("stages", "must be a mapping from a stage's name", 1), form=True
    ),
    bad(
        "when",
        "run: a\nwhen: always\n---\nname: b\nrun: a\nwhen: failure\n---\nname: c\nrun: a\n"
        "inputs: {x: j0123456789.x}\nwhen: always\n",
        ("when", "needs after", 2),
        ("when", "one of success, always", 6),
        ("when", "cannot be always beside inputs", 11),
        form=True,
    ),
    bad(
        "mistakes in two stages",
        "name: prep\nrun: a\nretrys: 3\n---\nname: b\nafter: [prep]\nresources: {gpu: 8..2}\nrun: b\n",
        ("retrys", "did you mean retries?", 3),
        ("resources.gpu", "2..8", 7),
        form=True,
    ),
]

_GPU = [
    bad("low end after high", "run: a\nresources:\n  gpu: 8..2\n", ("resources.gpu", "2..8", 3)),
    bad("range with a hyphen", "run: a\nresources:\n  gpu: 2-8\n", ("resources.gpu", "two dots: 2..8", 3)),
    bad("range with one end", "run: a\nresources: {gpu: 2..}\n", ("resources.gpu", "both ends", 2)),
    bad("range from zero", "run: a\nresources: {gpu: 0..4}\n", ("resources.gpu", "starts at 1", 2)),
    bad(
        "fraction with a range", "run: a\nresources: {gpu: 0.5..2}\n", ("resources.gpu", "fraction cannot", 2)
    ),
    bad("fraction above one", "run: a\nresources: {gpu: 1.5}\n", ("resources.gpu", "below 1", 2)),
    bad("negative GPUs", "run: a\nresources: {gpu: -1}\n", ("resources.gpu", "not be negative", 2)),
    bad("an army of GPUs", "run: a\nresources: {gpu: 1000000}\n", ("resources.gpu", "at most 16384", 2)),
    bad(
        "ways to hold what has a size",
        "run: a\nresources:\n  gpu: 1\n  estimate: a.py:make\n  ways: [{gpus: 2}]\n",
        ("resources.estimate", "for gpu: auto", 4),
        ("resources.ways", "for gpu: auto", 5),
    ),
    bad(
        "ways that are none",
        "run: a\nlaunch: once\nresources:\n  gpu: auto\n  estimate: train.py\n"
        "  ways: [{gpus: 0, memory: 8G, how: fast, speed: 0, wheels: 4}, {gpus: 2, how: plain split}]\n",
        ("resources.estimate", "which function", 5),
        ("resources.ways[0].gpus", "from 1", 6),
        ("resources.ways[0].memory", "8GB", 6),
        ("resources.ways[0].how", "fast is no strategy", 6),
        ("resources.ways[0].speed", "from 1e-06", 6),
        ("resources.ways[0].wheels", "not a field", 6),
        ("resources.ways[1].how", "say one of them", 6),
    ),
    bad(
        "one process for ways with several GPUs",
        "run: a\nlaunch: once\nresources:\n  gpu: auto\n  ways: [{gpus: 2, memory: 8GB}]\n",
        ("launch", "per-gpu", 2),
    ),
    bad(
        "auto that cannot be",
        "run: a\nresources: {gpu: auto, sizes: [2], share: auto}\n",
        ("resources.sizes", "needs a range", 2),
        ("resources.share", "needs gpu: 1", 2),
    ),
    bad(
        "auto in a role",
        "roles:\n  w: {run: x, resources: {gpu: auto}}\n",
        ("roles.w.resources.gpu", "without roles", 2),
    ),
    bad(
        "estimate beside train",
        "train: {make: a:b}\nresources: {gpu: auto, estimate: a.py:make}\n",
        ("resources.estimate", "estimated by itself", 2),
    ),
    bad("type without a number", "run: a\nresources: {gpu: A100}\n", ("resources.gpu", "how many", 2)),
    bad("slice with half a unit", "run: a\nresources: {gpu: 12G}\n", ("resources.gpu", "12GB (decimal)", 2)),
    bad(
        "number with an underscore", "run: a\nresources: {gpu: 1_0}\n", ("resources.gpu", "write a number", 2)
    ),
    bad("truth as a number", "run: a\nresources: {gpu: true}\n", ("resources.gpu", "write a number", 2)),
    bad(
        "sizes outside the range",
        "run: a\nresources:\n  gpu: 2..8\n  sizes: [1, 4, 16]\n",
        ("resources.sizes[0]", "inside the range 2..8", 4),
        ("resources.sizes[2]", "inside the range 2..8", 4),
    ),
    bad(
        "sizes of a rigid job",
        "run: a\nresources: {gpu: 4, sizes: [4]}\n",
        ("resources.sizes", "needs a range", 2),
    ),
    bad("no sizes", "run: a\nresources: {gpu: 2..4, sizes: []}\n", ("resources.sizes", "not be empty", 2)),
    bad(
        "one process, many sizes",
        "run: a\nlaunch: once\nresources: {gpu: 2..8}\n",
        ("launch", "must be per-gpu", 2),
    ),
    bad(
        "host amounts",
        "run: a\nresources:\n  cpu: four\n  memory: 32\n",
        ("resources.cpu", "number from 0.01", 3),
        ("resources.memory", "needs a unit", 4),
    ),
    bad(
        "shares what cannot be shared",
        "run: a\npriority: 100\nresources:\n  gpu: 2\n  share: auto\n",
        ("resources.share", "needs gpu: 1", 5),
        ("resources.share", "never preempted", 5),
    ),
    bad(
        "shares in a way that there is not",
        "run: a\nresources:\n  share: always\n",
        ("resources.share", "auto", 3),
    ),
    bad(
        "a role that shares",
        "roles:\n  a:\n    run: a\n    resources:\n      share: auto\n",
        ("roles.a.resources.share", "without roles", 5),
    ),
    bad("GPUs at the top", "run: a\ngpu: 4\n", ("gpu", "belongs under resources", 2)),
    bad("resources as a number", "run: a\nresources: 4\n", ("resources", "must be a mapping", 2)),
    bad("plural", "run: a\nresources: {gpus: 4}\n", ("resources.gpus", "did you mean gpu?", 2)),
]

_FIELDS = [
    bad("nothing to run", "name: a\n", ("run", "is needed", 1)),
    bad("run as a mapping", "run: {cmd: a}\n", ("run", "text or a list", 1)),
    bad("empty command", "run: '  '\n", ("run", "must not be empty", 1)),
    bad("empty list of arguments", "run: []\n", ("run", "must not be empty", 1)),
    bad(
        "list in the arguments",
        "run:\n  - python\n  - [a]\n  - {b: c}\n",
        ("run[1]", "must be text", 3),
        ("run[2]", "must be text", 4),
    ),
    bad("NUL in the command", 'run: "a\\0b"\n', ("run", "NUL", 1)),
    bad("endless command", "run: " + "x" * 200_000 + "\n", ("run", "at most 100000 characters", 1)),
    bad("unknown type", "run: a\ntype: trian\n", ("type", "did you mean train?", 2)),
    bad(
        "a placeholder that is not a parameter",
        "run: train --lr {rl} {rate}\nresources: {gpu: 1}\nsweep:\n  metric: loss\n  budget: {trials: 3}\n"
        "  space: {lr: [1, 2], width: [1, 2]}\n",
        ("run", "{rl} is not a parameter of this sweep (write {{rl}} for the text itself)", 1),
        ("run", "{rate} is not a parameter", 1),
    ),
    bad(
        "a value that would break out of quotes",
        "roles:\n  worker: {run: 'train --name \"{kind}\"', resources: {gpu: 1}}\nsweep:\n  metric: loss\n"
        "  budget: {trials: 3}\n  space: {kind: [plain, '$(id)']}\n",
        ("roles.worker.run", "{kind} can be '$(id)', which needs quotes of its own", 2),
    ),
    bad("sweep", "run: a\ntype: sweep\n", ("sweep", "is needed", 1)),
    bad(
        "a grid with more points than memory",
        "run: a\nresources: {gpu: 1}\nsweep:\n  metric: loss\n  sampler: grid\n"
        "  space:\n    a: {int: [0, 1000000000]}\n    b: [1, 2]\n",
        ("sweep.space", "at most 100000 points", 6),
    ),
    bad(
        "steps that floats cannot tell apart",
        "run: a\nresources: {gpu: 1}\nsweep:\n  metric: loss\n  budget: {trials: 3}\n"
        "  space:\n    a: {uniform: [0, 1], step: 1.0e-320}\n",
        ("sweep.space.a.step", "must be at least 1e-15", 7),
    ),
    bad(
        "serve of nothing",
        "type: serve\nserve: {replicas: 0}\nretries: 3\nlaunch: once\nresources: {gpu: 1..4}\n",
        ("serve.replicas", "at least 1", 2),
        ("retries", "for ever", 3),
        ("launch", "one worker a replica", 4),
        ("launch", "must be per-gpu", 4),
        ("resources.gpu", "replicas: 1..4", 5),
    ),
    bad("serve without a model", "type: serve\nserve: {}\n", ("serve.model", "an input named model", 2)),
    bad(
        "serve beside the rest",
        "run: a\ntrain: {make: a:b}\nserve: {model: a.pt2, weights: a.pt, port: 80}\noutputs: [a]\n",
        ("run", "beside serve", 1),
        ("train", "beside serve", 2),
        ("serve.port", "Grus chooses it", 3),
        ("serve.weights", "exported model", 3),
        ("type", "write type: serve", 1),
        ("outputs", "until it is stopped", 4),
    ),
    bad(
        "judged by nothing",
        "train: {make: 'a:b', metric: accuarcy}\n---\ntrain: {make: 'a:b', metric: mae}\n",
        ("train.metric", "did you mean accuracy?", 1),
        ("train.metric", "needs validation", 3),
        form=True,
    ),
    bad(
        "a split model as a whole",
        "train: {make: 'a:b', strategy: split, export: true, validation: 'a:c'}\n",
        ("train.validation", "split", 1),
        ("train.export", "split", 1),
    ),
    bad("weights of nothing", "type: serve\nserve: {weights: a.pt}\n", ("serve.weights", "needs model", 2)),
    bad(
        "roles that serve",
        "type: serve\nserve: {model: 'a:b'}\nroles: {w: {run: x}}\n",
        ("serve", "beside roles", 2),
    ),
    bad("image", "run: a\nimage: my image\n", ("image", "without spaces", 2)),
    bad(
        "pod",
        "run: a\npod:\n  spec:\n    nodeName: n1\n    containers: [{image: x}]\n  kind: Pod\n",
        ("pod.kind", "is not a part here", 6),
    ),
    bad(
        "pod that says what Grus says",
        "run: a\npod:\n  metadata: {name: x, labels: {grus.dev/job: y, a: 1}}\n"
        "  spec:\n    nodeName: n1\n    containers: [{image: x}, {}]\n",
        ("pod.metadata.name", "only labels and annotations", 3),
        ("pod.metadata.labels.grus.dev/job", "Grus's own", 3),
        ("pod.metadata.labels.a", "must be text", 3),
        ("pod.spec.nodeName", "node_selector", 5),
        ("pod.spec.containers", "one container at most", 6),
        ("pod.spec.containers[0].image", "beside run", 6),
    ),
    bad("bad name", "run: a\nname: My Job\n", ("name", "small letters", 2)),
    bad("endless name", f"run: a\nname: {'n' * 64}\n", ("name", "1 to 63", 2)),
    bad("bad queue", "run: a\nqueue: ../etc\n", ("queue", "small letters", 2)),
    bad("launch misspelt", "run: a\nlaunch: per_gpu\n", ("launch", "did you mean per-gpu?", 2)),
    bad("priority unknown", "run: a\npriority: high\n", ("priority", "must be one of inference", 2)),
    bad("priority too high", "run: a\npriority: 126\n", ("priority", "from 0 to 125", 2)),
    bad("text as a number", 'run: a\nretries: "3"\n', ("retries", "whole number", 2)),
    bad("too many retries", "run: a\nretries: 101\n", ("retries", "from 0 to 100", 2)),
    bad("octal", "run: a\nretries: 010\n", ("retries", "whole number", 2)),
    bad("yes is not true", "run: a\nsnapshot: yes\n", ("snapshot", "true or false", 2)),
    bad("data without a word", "run: a\ndata: []\n", ("data", "must not be empty", 2)),
    bad("data called otherwise", "run: a\ndataset: x\n", ("dataset", "data", 2)),
    bad("time of day as a length", "run: a\nmax_runtime: 12:30\n", ("max_runtime", "length of time", 2)),
    bad("no time at all", "run: a\nmax_runtime: 0\n", ("max_runtime", "from 1s", 2)),
    bad(
        "checkpoint",
        "run: a\ncheckpoint:\n  grace: 2h\n  every: often\n  folder: x\n",
        ("checkpoint.grace", "from 0s to 1h", 3),
        ("checkpoint.every", "length of time", 4),
        ("checkpoint.folder", "not a field here", 5),
    ),
    bad(
        "idle",
        "run: a\nidle:\n  below: 0.1\n  for: soon\n  action: kill\n",
        ("idle.below", "0% to 100%", 3),
        ("idle.for", "length of time", 4),
        ("idle.action", "pause, notify", 5),
    ),
    bad("idle above all", "run: a\nidle: {below: 120%}\n", ("idle.below", "0% to 100%", 2)),
    bad(
        "variables",
        "run: a\nenv:\n  1ST: a\n  A-B: b\n  RANK: '3'\n  LIST: [a]\n",
        ("env.1ST", "not start with a digit", 3),
        ("env.A-B", "letters, digits and _", 4),
        ("env.RANK", "set by Grus", 5),
        ("env.LIST", "must be text", 6),
    ),
    bad(
        "bad secrets",
        "run: a\nenv: {B: c}\nsecrets:\n  1ST: a\n  GRUS_X: b\n  LD_PRELOAD: c\n  A: Not A Name\n  RANK: d\n",
        ("secrets.1ST", "not start with a digit", 4),
        ("secrets.GRUS_X", "cannot hold a secret", 5),
        ("secrets.LD_PRELOAD", "cannot hold a secret", 6),
        ("secrets.A", "small letters, digits and hyphens", 7),
        ("secrets.RANK", "set by Grus", 8),
    ),
    bad("secret in env too", "run: a\nenv: {B: c}\nsecrets: [B]\n", ("secrets.B", "is in env too", 3)),
    bad("secret twice", "run: a\nsecrets: [B, B]\n", ("secrets", "names a variable twice", 2)),
    bad("secret as text", "run: a\nsecrets: b\n", ("secrets", "must be a list of variables", 2)),
    bad("variables as a list", "run: a\nenv: [A=1]\n", ("env", "must be a mapping", 2)),
    bad(
        "after",
        "run: a\nafter: [A_B]\n",
        ("after[0]", "small letters", 2),
    ),
    bad("after as a word", "run: a\nafter: prepare\n", ("after", "must be a list", 2)),
    bad("labels", "run: a\nnode_selector: {-x: a}\n", ("node_selector.-x", "must be a label", 2)),
    bad("affinity", "run: a\naffinity: {avoid: [n1]}\n", ("affinity.avoid", "did you mean avoid_nodes?", 2)),
    bad("words of others", "command: a\n", ("command", "did you mean run?", 1)),
    bad(
        "many at once",
        "nmae: x\ntype: dev\nresources:\n  gpu: 4..2\n  memory: 3G\nretries: -1\nenv: {A: 1}\nfoo: bar\n",
        ("nmae", "did you mean name?", 1),
        ("run", "is needed", 1),
        ("resources.gpu", "2..4", 4),
        ("resources.memory", "3GB", 5),
        ("retries", "from 0 to 100", 6),
        ("foo", "the fields are", 8),
    ),
]

_GOOD_TRAIN = "  model: a.py:net\n  data: a.py:all\n"
_TRAIN = [
    bad(
        "run and train",
        "run: a\nlaunch: once\ntrain: {make: a:b}\n",
        ("run", "beside train", 1),
        ("launch", "per-gpu", 2),
    ),
    bad("train once without a plan", "launch: once\ntrain: {make: a:b}\n", ("launch", "unless a plan", 1)),
    bad(
        "train by a plan on each node",
        "launch: per-node\ntrain: {make: a:b, plan: p}\n",
        ("launch", "per-gpu", 1),
    ),
    bad("train beside roles", "roles: {w: {run: a}}\ntrain: {make: a:b}\n", ("train", "roles", 2)),
    bad("empty train", "train: {}\n", ("train", "model, data, loss and optimizer, or make", 1)),
    bad("train as a word", "train: a.py:make\n", ("train", "must be a mapping", 1)),
    bad(
        "train without most of it",
        "train:\n  model: a.py:net\n",
        ("train.data", "is needed", 1),
        ("train.loss", "is needed", 1),
        ("train.optimizer", "is needed", 1),
    ),
    bad(
        "train in all wrong words",
        "train:\n  model: a.py\n  data: a b:c\n  loss: CrossEntropyLoss\n  optimizer: adma\n  batch: 0\n"
        "  epochs: many\n  lr: 1\n  strategy: zero2 fsdp quick\n",
        ("train.model", "which function", 2),
        ("train.data", "must name a function", 3),
        ("train.loss", "did you mean cross_entropy?", 4),
        ("train.optimizer", "must be one of", 5),
        ("train.batch", "from 1", 6),
        ("train.epochs", "from 1", 7),
        ("train.lr", "belongs to the optimizer", 8),
        ("train.strategy", "quick is no strategy", 9),
    ),
    bad(
        "make and what it gives",
        "train:\n  make: a:b\n  model: a:c\n  loss: mse\n  optimizer: adam\n",
        ("train.model", "beside make", 3),
        ("train.loss", "beside make", 4),
        ("train.optimizer", "beside make", 5),
    ),
    bad(
        "rate of sgd",
        f"train:\n{_GOOD_TRAIN}  loss: mse\n  optimizer: sgd\n",
        ("train.optimizer.lr", "is needed", 5),
    ),
    bad(
        "options of an optimizer",
        "train:\n  model: a:b\n  loss: mse\n  optimizer:\n    name: sgd\n    learning_rate: 1\n"
        "    momentum: x\n    nesterov: 1\n",
        ("train.data", "is needed", 1),
        ("train.optimizer.learning_rate", "did you mean lr?", 6),
        ("train.optimizer.momentum", "number", 7),
        ("train.optimizer.nesterov", "true or false", 8),
    ),
    bad(
        "options that are none",
        f"train:\n{_GOOD_TRAIN}  loss: mse\n  optimizer: {{name: adam, lr: -1, betas: 3, momentum: 1}}\n",
        ("train.optimizer.lr", "from 0", 5),
        ("train.optimizer.betas", "two numbers", 5),
        ("train.optimizer.momentum", "not a field", 5),
    ),
    bad(
        "optimizer without a name",
        f"train:\n{_GOOD_TRAIN}  loss: mse\n  optimizer: {{lr: 1}}\n",
        ("train.optimizer.name", "is needed", 5),
    ),
]

_ROLES = [
    bad(
        "roles beside run",
        "run: a\nlaunch: once\nresources: {gpu: 1}\nroles:\n  w: {run: b}\n",
        ("run", "cannot stand beside roles", 1),
        ("launch", "cannot stand beside roles", 2),
        ("resources", "cannot stand beside roles", 3),
    ),
    bad(
        "two ranges",
        "roles:\n  a: {run: x, replicas: 1..2}\n  b:\n    run: y\n    replicas: 2..4\n",
        ("roles.b.replicas", "only one role may have a range", 5),
    ),
    bad(
        "role without a command",
        "roles:\n  w:\n    replicas: 2\n",
        ("roles.w.run", "is needed", 2),
    ),
    bad("no replicas", "roles:\n  w: {run: x, replicas: 0}\n", ("roles.w.replicas", "at least 1", 2)),
    bad(
        "range in a role's GPUs",
        "roles:\n  w: {run: x, resources: {gpu: 2..4}}\n",
        ("roles.w.resources.gpu", "replicas: 2..4", 2),
    ),
    bad(
        "elastic slices",
        "roles:\n  w: {run: x, replicas: 1..4, resources: {gpu: 0.5}}\n",
        ("roles.w.resources.gpu", "whole GPUs", 2),
    ),
    bad(
        "names of roles",
        "roles:\n  Big_One: {run: x}\n  setup: {run: y}\n",
        ("roles.Big_One", "small letters", 2),
        ("roles.setup", "choose another", 3),
    ),
    bad(
        "role with mistakes of all kinds",
        "retries: x\n"
        "roles:\n  w:\n    cmd: a\n    replicas: two\n    resources: {gpu: [1]}\n  v: {replicas: 2}\n",
        ("retries", "whole number", 1),
        ("roles.w.cmd", "did you mean run?", 4),
        ("roles.w.replicas", "whole number (4) or a range", 5),
        ("roles.w.resources.gpu", "write a number", 6),
        ("roles.v.run", "is needed", 7),
    ),
    bad("roles as a list", "roles: [a]\n", ("roles", "must be a mapping", 1)),
    bad("no roles", "roles: {}\n", ("roles", "1 to 16 roles", 1)),
]

BAD_JOB_FILES: list[BadJob] = _FORM + _GPU + _FIELDS + _TRAIN + _ROLES
BAD_REQUESTS: list[BadJob] = [one for one in BAD_JOB_FILES if not one.form]
