"""TensorFlow placeholder: it is not supported here, and this says so instead of a missing-module error."""

raise ImportError(
    "Grus's Horovod front is for torch. A script for TensorFlow needs the image's own horovodrun:"
    " annotate the ElasticHorovodJob with grus.dev/horovod=run"
)
