"""Entry point of a training: calls the function that a user names, and makes a training of its result.

The code of the function (`train.py:make`) runs in this process: right for the workers of a job, which run it
anyway. A caller that only needs information about it asks a child process instead (`child`). Needs torch.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from grus.estimation.training_definition import (
    Loss,
    Training,
    criterion,
    of_data,
    of_example,
    of_model,
    of_optimizer,
    samples,
)
from grus.estimation.user_code_errors import blamed
from grus.model.errors import BadInput, Mistake

FORM = "write file:function (train.py:make) or package.module:function"
PARTS = ("model", "optimizer", "batch", "loss")
"""Parts that a function returns, in this order or by these names."""
MORE = ("size", "data", "epochs", "seed")
"""Optional parts that it may return too, by name."""


def load(target: str, folder: Path, size: int | None = None) -> Training:
    """The training that `target` describes; `size` samples a batch instead of its own. Raises BadInput."""
    make = function(target, folder)
    with blamed(target):
        made = make()
    return training(made, target, size)


def function(target: str, folder: Path) -> Callable[..., Any]:
    """Return the function that `target` names, searched from `folder` on. Raises BadInput."""
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise BadInput([Mistake("function", FORM, target or "nothing")])
    is_file = place.endswith(".py") or "/" in place
    with blamed(place):
        module = _file(place, folder) if is_file else _module(place, folder)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        rule = f"has no function {name}" if found is None else f"{name} is not a function"
        have = _functions(module)
        raise BadInput([Mistake(place, f"{rule}; it has {', '.join(have) or 'none'}", target)])
    return found  # type: ignore[no-any-return]  # callable() says less than this


def training(made: object, target: str, size: int | None = None) -> Training:
    """Return a function's result as a training. Raises BadInput with all errors."""
    given = _by_name(made, target)
    mistakes: list[Mistake] = []

    def wrong(part: str, rule: str, value: object = None) -> None:
        shown = f"{type(value).__name__}" if value is not None else ""
        mistakes.append(Mistake(f"{target}: {part}", rule, shown))

    model = _model(given["model"], target, wrong)
    optimizer = _optimizer(given["optimizer"], given["model"], target, wrong)
    loss = _loss(given["loss"], wrong)
    batch, own = _batch(given["batch"], given.get("data"), given.get("size"), wrong)
    if not mistakes and size is None and own is None:
        wrong(
            "batch", "is a function of the number of samples, so say how many: --batch, or a `size` beside it"
        )
    for part in ("epochs", "seed"):
        if not _whole(given.get(part, 1)):
            wrong(part, "must be a whole number", given[part])
    if size is not None and size < 1:
        wrong("batch", "must have at least one sample")
    if mistakes or model is None or optimizer is None or loss is None or batch is None:
        raise BadInput(mistakes)
    data = given.get("data")
    return Training(
        model,
        optimizer,
        batch,
        loss,
        size=size or own or 1,
        data=None if data is None else data if _is_function(data) else lambda: data,
        epochs=given.get("epochs", 1),
        seed=given.get("seed", 0),
    )


# ------------------------------------------------------------------------------------------------- finding


def _file(place: str, folder: Path) -> ModuleType:
    """The file as a module of its own name; its folder comes first in the search, as when it is run."""
    path = (folder / place).resolve()
    if not path.is_file():
        raise BadInput([Mistake("function", f"there is no file {path}", place)])
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        name = f"grus_entry_{name}"  # the name is in use, perhaps by a library
    _search(path.parent)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput([Mistake("function", "is not a Python file", place)])
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, ImportError) and "relative import" in str(error):
            dotted = place.removesuffix(".py").strip("./").replace("/", ".")
            rule = f"imports from its own package, so name it as a module: {dotted}:function"
            raise BadInput([Mistake("function", rule, place)]) from None
        raise
    return module


def _module(place: str, folder: Path) -> ModuleType:
    _search(folder.resolve())
    return importlib.import_module(place)


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


# ------------------------------------------------------------------------------------------ what it returned

Wrong = Callable[..., None]


def _by_name(made: object, target: str) -> dict[str, Any]:
    """The parts by their names."""
    if isinstance(made, tuple | list) and len(made) == len(PARTS):
        return dict(zip(PARTS, made, strict=True))
    if not isinstance(made, Mapping):
        found = f"{len(made)} things" if isinstance(made, tuple | list) else type(made).__name__
        rule = f"must return ({', '.join(PARTS)}), or a dict with these keys"
        raise BadInput([Mistake(target, rule, found)])
    mistakes = [Mistake(f"{target}: {part}", "is missing") for part in PARTS if part not in made]
    mistakes += [
        Mistake(f"{target}: {key}", f"is not among {', '.join(PARTS + MORE)}")
        for key in made
        if key not in PARTS + MORE
    ]
    if mistakes:
        raise BadInput(mistakes)
    return dict(made)


def _is_function(value: object) -> bool:
    """Return whether it is a callable that makes an object, or a class; not a module or a dataset itself."""
    itself = isinstance(value, nn.Module) or hasattr(value, "__getitem__")
    return isinstance(value, type) or (callable(value) and not itself)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _model(given: Any, target: str, wrong: Wrong) -> Callable[[], nn.Module] | None:
    if isinstance(given, nn.Module):
        return of_model(given)
    if callable(given):
        return lambda: _checked(given(), nn.Module, f"{target}: model")
    wrong("model", "must be a torch.nn.Module or a function that builds one", given)
    return None


def _optimizer(
    given: Any, model: Any, target: str, wrong: Wrong
) -> Callable[[Iterable[nn.Parameter]], Optimizer] | None:
    if not isinstance(given, Optimizer):
        if callable(given):
            return lambda parameters: _checked(given(parameters), Optimizer, f"{target}: optimizer")
        wrong("optimizer", "must be a torch.optim.Optimizer or a function of the parameters", given)
        return None
    if not isinstance(model, nn.Module):
        wrong("optimizer", "must be a function of the parameters, since the model is a function too", given)
        return None
    found = of_optimizer(given, model)
    if found is None:
        wrong("optimizer", "has parameters that are not the model's")
    return found


def _checked(made: Any, kind: type, what: str) -> Any:
    """Return the result of a user's function, if it has the right type."""
    if not isinstance(made, kind):
        raise BadInput([Mistake(what, f"must return a torch {kind.__name__}", type(made).__name__)])
    return made


def _batch(given: Any, data: Any, size: Any, wrong: Wrong) -> tuple[Callable[[int], Any] | None, int | None]:
    """A function of the number of samples, and that number where it is known."""
    if size is not None and not (_whole(size) and size > 0):
        wrong("size", "must be a whole number above 0", size)
        return None, None
    if _whole(given):
        if given < 1:
            wrong("batch", "must be a whole number above 0")
        elif data is None:
            wrong("batch", "is a number, which needs `data` to take the samples from")
        else:
            return (lambda count: of_data(data() if _is_function(data) else data)(count)), given
        return None, None
    if callable(given) and not isinstance(given, Tensor | nn.Module):
        return given, size
    if isinstance(given, DataLoader):
        given = next(iter(given), None)
    own = samples(given)
    if not own:
        wrong("batch", "must be an example batch with tensors, or a function of the number of samples", given)
        return None, None
    return of_example(given), size or own


def _loss(given: Any, wrong: Wrong) -> Loss | None:
    if isinstance(given, nn.Module) or getattr(given, "__module__", "").startswith("torch.nn"):
        return criterion(given)  # torch's own losses take (output, target)
    if callable(given):
        return given  # type: ignore[no-any-return]  # looked at when it is called
    wrong("loss", "must be a function of (model, batch) that returns a scalar tensor", given)
    return None
