"""All-reduce of gradients between workers, in buckets and compressed."""
