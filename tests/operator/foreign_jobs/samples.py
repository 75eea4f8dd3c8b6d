"""Objects as users of the other systems have them: the fields and values of the originals' own samples."""

from typing import Any

Object = dict[str, Any]


def horovod_sample(**workers: int) -> Object:
    """Of Alnair: the second word of the command holds arguments too, and two fields are of no kind at all."""
    return {
        "apiVersion": "ai.centauruscloud.io/v1alpha1",
        "kind": "ElasticHorovodJob",
        "metadata": {"name": "sample", "namespace": "team", "uid": "u-1"},
        "spec": {
            "containers": [{"volumeMounts": [{"mountPath": "/tmp/data", "name": "network-data"}]}],
            "launcherSpec": {
                "image": "elastic-horovod-demo:1.0",
                "pythonCommand": ["python", "/examples/pytorch_cifar_elastic.py --epochs=10"],
            },
            "workersSpec": {
                "image": "elastic-horovod-demo:1.0",
                "minReplicas": 2,
                "maxReplicas": 5,
                **workers,
            },
            "volumes": [{"name": "network-data", "hostPath": {"path": "/nfs/records", "type": "Directory"}}],
        },
    }


def brain_sample(**spec: str) -> Object:
    """Of Big Brain: four words."""
    return {
        "apiVersion": "big-brain.github.com/v1",
        "kind": "BBJob",
        "metadata": {"name": "bbjob-sample", "namespace": "team", "uid": "u-2"},
        "spec": {
            "model": "resnet50",
            "data": "/data/train.tfrecord",
            "loss": "crossentropy",
            "optimizer": "adam",
            **spec,
        },
    }


def annotated(source: Object, **annotations: str) -> Object:
    named = {f"grus.dev/{name}": value for name, value in annotations.items()}
    return {**source, "metadata": {**source["metadata"], "annotations": named}}
