"""What Grus and a Kubernetes cluster say to each other: custom resources, watches, leadership."""
