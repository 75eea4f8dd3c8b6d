"""The engine of a Kubernetes cluster: workers are pods; Grus says on which node each of them runs.

`pods`, `states`, `nodes` and `reservations` are pure: what objects look like and mean. `engine` acts, by way
of `hands` (what is done to the cluster) and `watcher` (what becomes of the workers). The others: `lanes`
(calls in order, many at once), `records` (what is known of a worker), `fence` (who may act), `logs`, `pool`,
`usage`.
"""
