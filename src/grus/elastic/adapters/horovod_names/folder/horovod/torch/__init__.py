"""`import horovod.torch as hvd` is Grus's own: the two modules are one."""

import sys

from grus.elastic.adapters import horovod

sys.modules[__name__] = horovod
sys.modules[f"{__name__}.elastic"] = horovod.elastic
