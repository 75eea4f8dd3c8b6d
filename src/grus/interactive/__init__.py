"""Development sessions: what runs inside a job of type dev, and the way from a notebook to a training job."""
