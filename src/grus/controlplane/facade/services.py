"""Services: everything that users can request, behind every entry point; one narrow service for each noun.

Each operation first checks what this user may do, then reads or writes, and answers with values of the model.
User requests are written to the store and carried out by the loop; nothing here touches a worker. Only
`actions.submit` and `accounts.whoami` are quick enough for a thread that serves all connections.
"""

import secrets
import time
from collections.abc import Callable

from grus.controlplane.admission.submission import Submission
from grus.controlplane.admission.workflow_graph import Graphs
from grus.controlplane.admission.workflow_submission import GraphSubmission
from grus.controlplane.eta.forecast_service import Forecaster
from grus.controlplane.facade.job_actions import JobActions
from grus.controlplane.facade.job_outputs import JobOutputs
from grus.controlplane.facade.job_reader import JobReader
from grus.controlplane.facade.pool_admin import PoolAdmin
from grus.controlplane.facade.queue_admin import QueueAdmin
from grus.controlplane.facade.user_admin import UserAdmin
from grus.controlplane.history.finished_runs import Results
from grus.controlplane.monitoring.explain_messages import Remarks
from grus.controlplane.monitoring.profile_query import Insight
from grus.controlplane.monitoring.series_query import Readings
from grus.controlplane.monitoring.telemetry_collector import Watching
from grus.controlplane.monitoring.trend_forecast import Prospects
from grus.controlplane.notifications.receivers import Notifier
from grus.controlplane.reconciler.loop import ControlLoop
from grus.controlplane.security.secret_store import SecretStore
from grus.controlplane.security.user_tokens import Accounts
from grus.controlplane.settings import Settings
from grus.controlplane.sweeps.sweep_summary import SweepReader
from grus.controlplane.sweeps.trial_index import Trials
from grus.controlplane.visibility import JobVisibility
from grus.model.errors import NotFound
from grus.model.interfaces import USERS, Engine, Store
from grus.model.jobs import Job, Phase

NO_TELEMETRY = "this server records no telemetry"


class Services:
    """One a server, for any thread."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        loop: ControlLoop,
        *,
        settings: Settings,
        clock: Callable[[], float] = time.time,
        entropy: Callable[[], int] = lambda: secrets.randbits(50),
        forecaster: Forecaster | None = None,
        watching: Watching | None = None,
        insight: Insight | None = None,
        trials: Trials | None = None,
        notifications: Notifier | None = None,
    ) -> None:
        self._loop = loop
        self._insight = insight
        self.settings = settings
        self.clock = clock
        self.subscribe = store.subscribe
        """For a server that wakes its streams. Visibility is checked when they read."""
        self.visible = JobVisibility(store, loop.picture)
        self.accounts = Accounts(store, clock)
        """Callers by their tokens, and listings. Changes go through `users`, which isolates them."""
        self.secrets = SecretStore(settings, lambda: store.find(USERS))
        """Secrets of each user; values go in and never out."""
        self.notifications = notifications or Notifier(store)
        """Receivers of messages about jobs, for administrators."""
        self.submission = Submission(store, loop.picture, settings, self.secrets)
        visible, nodes = self.visible, lambda: loop.picture.nodes
        remarks = Remarks(loop, watching)
        self.jobs = JobReader(store, loop, visible, remarks, forecaster, clock)
        self.outputs = JobOutputs(store, engine, loop, visible, settings.containers)
        self.actions = JobActions(store, loop, self.submission, visible, clock, entropy, forecaster, insight)
        self.graphs = Graphs(store, visible)
        self.workflows = GraphSubmission(
            store, self.submission, self.graphs, visible, clock, entropy, self._stands
        )
        self._trials = trials or Trials(store)
        self.sweeps = SweepReader(visible, self._trials, clock)
        self.results = Results(store, visible)
        """Results of ended jobs."""
        self.queues = QueueAdmin(store, loop, visible, clock, not settings.containers)
        self.users = UserAdmin(
            store, loop, self.accounts, self.queues, self.secrets, settings, clock, self.actions.stop
        )
        self.pool = PoolAdmin(
            store,
            engine,
            loop,
            visible,
            settings,
            clock,
            watching,
            insight,
            forecaster,
            self.notifications,
            clock(),
        )
        self._readings = self._prospects = None
        if watching is not None:
            self._readings = Readings(watching, visible, clock)
            self._prospects = Prospects(self._readings, watching, visible, forecaster, nodes, clock)

    def close(self) -> None:
        """Finish copies that are under way. Idempotent."""
        self.jobs.close()
        self._trials.close()
        self.actions.close()

    def _stands(self, job: Job) -> bool:
        """Return whether it has succeeded, and its artifacts are still there."""
        holds = self._loop.picture.vaults.holds
        return job.phase is Phase.SUCCEEDED and all(holds(job.user, one) for one in job.artefacts)

    @property
    def insight(self) -> Insight:
        """Return the learned profiles. Raises NotFound if none are kept."""
        if self._insight is None:
            raise NotFound("this server keeps no profiles")
        return self._insight

    @property
    def watched(self) -> bool:
        """Return whether telemetry is measured and recorded here."""
        return self._readings is not None

    @property
    def telemetry(self) -> Readings:
        """Return the telemetry; each user sees their own part. Raises NotFound if none is recorded."""
        if self._readings is None:
            raise NotFound(NO_TELEMETRY)
        return self._readings

    @property
    def prospects(self) -> Prospects:
        """Return the forecasts of telemetry. Raises NotFound if none is recorded."""
        if self._prospects is None:
            raise NotFound(NO_TELEMETRY)
        return self._prospects
