"""A trained model behind HTTP: the program of a job of type serve. Needs torch.

loaded_model       the model, built from a section with its weights
json_tensors       conversion between JSON and tensors
dynamic_batching   computes waiting requests together
app                routes of the requests
replica            one process, from its start to its end
"""
