"""Horovod's calls on top of this runtime: `import grus.elastic.adapters.horovod as hvd`, and nothing else.

For scripts written for `horovod.torch` and its elastic mode
(https://horovod.readthedocs.io/en/stable/elastic.html). docs/elastic-training.md lists the differences. New
programs should use `grus.train`.
"""

from grus.elastic.adapters.horovod import elastic as elastic
from grus.elastic.adapters.horovod.errors import HorovodInternalError as HorovodInternalError
from grus.elastic.adapters.horovod.errors import HostsUpdatedInterrupt as HostsUpdatedInterrupt
from grus.elastic.adapters.horovod.exchange import Average as Average
from grus.elastic.adapters.horovod.exchange import Sum as Sum
from grus.elastic.adapters.horovod.exchange import allgather as allgather
from grus.elastic.adapters.horovod.exchange import allreduce as allreduce
from grus.elastic.adapters.horovod.exchange import allreduce_ as allreduce_
from grus.elastic.adapters.horovod.exchange import broadcast as broadcast
from grus.elastic.adapters.horovod.exchange import broadcast_ as broadcast_
from grus.elastic.adapters.horovod.exchange import broadcast_object as broadcast_object
from grus.elastic.adapters.horovod.exchange import broadcast_optimizer_state as broadcast_optimizer_state
from grus.elastic.adapters.horovod.exchange import broadcast_parameters as broadcast_parameters
from grus.elastic.adapters.horovod.optimizer import Compression as Compression
from grus.elastic.adapters.horovod.optimizer import DistributedOptimizer as DistributedOptimizer
from grus.elastic.adapters.horovod.world import init as init
from grus.elastic.adapters.horovod.world import is_initialized as is_initialized
from grus.elastic.adapters.horovod.world import local_rank as local_rank
from grus.elastic.adapters.horovod.world import local_size as local_size
from grus.elastic.adapters.horovod.world import rank as rank
from grus.elastic.adapters.horovod.world import shutdown as shutdown
from grus.elastic.adapters.horovod.world import size as size
