"""Names shared by controller, node agent and the worker's init container: annotations and file paths.

Light: the init container imports it.

The engine writes all annotations of a worker, except those under "said by the node agent".
"""

PREFIX = "grus.dev/"

# ------------------------------------------------------------------------------------- on a worker's pod
JOB = f"{PREFIX}job"
"""Label: the job's id. Pods without it (or RESERVATION) are none of the node agent's business."""
RESERVATION = f"{PREFIX}reservation"
"""Label of a pod that holds a GPU for slices; the node agent adds its UUID."""
WORKER = f"{PREFIX}worker"
"""Annotation: the worker's id. Also the name of the finalizer that keeps a pod until its end was read."""
ATTEMPT = f"{PREFIX}attempt"
EPOCH = f"{PREFIX}epoch"
DEVICES = f"{PREFIX}devices"
CONTROL = f"{PREFIX}control"
"""The text of the control file."""
KILL_AT = f"{PREFIX}kill-at"
"""Unix seconds (a decimal number) at which all its processes are killed."""
GPU_MEMORY = f"{PREFIX}gpu-memory"
"""Bytes of GPU memory that it may use on each of its devices; missing: all of it."""
VERDICT = f"{PREFIX}verdict"
"""JSON {"cause", "text"}: reason why the engine itself ends it, where that is no requested stop."""

# ------------------------------------------------------------ on the pod of a worker that is forgotten
ENDED = f"{PREFIX}ended"
"""Label, in place of JOB: the job of an ended worker. It
ended by itself, and its log stays until the job is gone.
"""
WAS = f"{PREFIX}was"
"""Annotation, in place of WORKER."""

# ------------------------------------------------------------------------------- said by the node agent
SAID = f"{PREFIX}said"
"""The last whole line of the report; at once when the bell was rung, else some seconds later."""
READ = f"{PREFIX}read"
"""Its processes are gone and SAID holds the last line: "true"."""
SIGNALLED = f"{PREFIX}signalled"
"""Its main process was sent SIGTERM, because of KILL_AT: "true"."""
UUIDS = f"{PREFIX}uuids"
"""The GPUs that the kubelet gave it, with commas between."""
OVER = f"{PREFIX}over"
"""A sentence: it used more memory than its slice has."""

# --------------------------------------------------------------------------------- said by the profiler
TAG = f"{PREFIX}tag"
"""On a pod that has GPUs, JSON (`tag_annotations`): the recognized tag."""
GPU_TAG = f"{PREFIX}gpu-"
"""Annotation on a node, followed by the number of a GPU (and,
of a partitioned one, "-" and the instance): the recognized tag.
"""

# -------------------------------------------------------------------------------- on the agent's own pod
AGENT = f"{PREFIX}agent"
"""Label of the node agents' pods: "true"."""
ASKED = f"{PREFIX}asked"
"""Annotation, by the engine when it takes over: any token, to be repeated in ANSWERED."""
ANSWERED = f"{PREFIX}answered"
"""Annotation, by the agent: all reports that workers had made when this token was set are on their pods."""
USAGE = f"{PREFIX}usage"
"""Annotation, JSON: {"at": unix seconds, "pods": {pod uid: [CPU seconds, bytes, GPU share, GPU bytes]}}.

The last two are null where they cannot be measured.
"""

# ---------------------------------------------------------------------------------------- on a namespace
MANAGED = f"{PREFIX}managed"
"""Label of a namespace that Grus has made for the jobs of one user in one queue: "true"."""
QUEUE = f"{PREFIX}queue"
USER = f"{PREFIX}user"
"""Annotation of such a namespace: its user, in full."""
ALLOWED_POD_FIELDS = f"{PREFIX}allowed-pod-fields"
"""Annotation, by an administrator: paths of `pod` that jobs of the namespace may set, with commas between."""

# ----------------------------------------------------------------------------------- in the worker's pod
VOLUME = "grus"
"""The emptyDir through which worker and node agent communicate."""
FOLDER = "/run/grus"
"""Mount path of the volume, in the init container too."""
CONTROL_FILE = "control"
REPORT_FILE = "report"
BELL_FILE = "bell"
ATTACHED_FILE = "attached"
"""File made by the node agent: from now on it listens to the bell."""
CODE_VOLUME = "grus-code"
"""The emptyDir into which a code bundle is unpacked."""
CODE_FOLDER = "/run/grus-code"
BUNDLE_VOLUME = "grus-bundle"
"""The projected volume that holds the bundle's pieces; for the init container only."""
BUNDLE_FOLDER = "/run/grus-bundle"
BUNDLE_VARIABLE = "GRUS_BUNDLE"
"""Environment of the init container: which bundle to unpack; missing: none."""
