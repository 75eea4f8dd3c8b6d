"""TensorFlow is not served here, and says so rather than that a module is missing."""

raise ImportError(
    "Grus's Horovod front is for torch. A script for TensorFlow needs the image's own horovodrun:"
    " annotate the ElasticHorovodJob with grus.dev/horovod=run"
)
