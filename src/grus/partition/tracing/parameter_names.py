"""Tensors in a module under the names that they have in the user's model. Needs torch."""

from torch import Tensor, nn


def put(root: nn.Module, name: str, tensor: Tensor, *, persistent: bool = True) -> None:
    """Make it the parameter or the buffer of that name; what is `persistent` belongs to what is saved."""
    *path, last = name.split(".")
    for part in path:
        if part not in root._modules:
            root.add_module(part, nn.Module())
        root = root.get_submodule(part)
    if isinstance(tensor, nn.Parameter):
        root.register_parameter(last, tensor)
    else:
        root.register_buffer(last, tensor, persistent=persistent)
