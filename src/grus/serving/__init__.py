"""A trained model behind HTTP: what a job of type serve runs. Needs torch.

served → which model, put together from a section      values → JSON to tensors and back
batching → requests that wait are computed together    app → the requests themselves
replica → one process, from its start to its end
"""
