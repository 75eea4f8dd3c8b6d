"""Development sessions: programs inside a job of type dev, and conversion of a notebook to a training job."""
