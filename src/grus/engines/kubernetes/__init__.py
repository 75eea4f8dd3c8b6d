"""Engine for a Kubernetes cluster: workers are pods, and Grus chooses the node of each pod.

`pods`, `pod_status`, `nodes` and `reservations` are pure: the form and meaning of objects. `engine` acts, by
way of `pod_actions` (changes to the cluster) and `watcher` (state of the workers). The others:
`keyed_executor` (calls in order, many at once), `worker_records` (data about a worker), `fencing` (permission
to act), `logs`, `pool`, `usage`.
"""
