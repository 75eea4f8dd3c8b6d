"""Secrets of a job as a user writes them: `secrets: {VARIABLE: secret-name}`, or `secrets: [VARIABLE]`. Pure.

A job names secrets; their values are in the secret store of this machine, or in Secrets of the cluster.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import BrokenRule, failure
from grus.model.identifiers import NAME, NAME_RULE

MOST_SECRETS = 64
LARGEST_SECRET = 64 * 1024
"""Bytes of one value; Linux takes at most 128 KiB for one variable."""
NOT_A_SECRET = frozenset({"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"})
"""Variables that decide what program runs."""
ON_KUBERNETES = (
    'are Secrets of the cluster on Kubernetes: printf %s "$VALUE" | kubectl create secret generic '
    "grus-secret-NAME --from-file=value=/dev/stdin, in the job's namespace"
)
"""Advice on setting one there, appended to "secrets"."""
_RESERVED = ("GRUS_", "LD_")
_WORDS = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|PRIVATE_?KEY|API_?KEY|ACCESS_?KEY)S?(?:_|$)",
    re.ASCII | re.IGNORECASE,
)
_NOT_ITSELF = re.compile(r"_(?:FILE|PATH|DIR|NAME|TTL|LENGTH|COUNT|LIMIT)$", re.ASCII | re.IGNORECASE)
"""Endings of variables that say something about a secret, not the secret itself."""


def looks_secret(variable: str) -> bool:
    """Return True if the value of a variable with this name is probably a secret: `HF_TOKEN`,
    `WANDB_API_KEY`.
    """
    return bool(_WORDS.search(variable)) and not _NOT_ITSELF.search(variable)


def secret_name(variable: str) -> str:
    """Return the default name of a variable's secret: `hf-token` for HF_TOKEN."""
    return variable.lower().replace("_", "-").strip("-")[:63]


def secret_variable_problem(variable: str) -> str:
    """Return the rule that a variable's name breaks; empty if a secret can be in it."""
    if variable.startswith(_RESERVED) or variable in NOT_A_SECRET:
        return "cannot hold a secret: it decides what runs, or belongs to Grus; choose another name"
    return f.variable_rule(variable)


def checked(value: Any) -> dict[str, str]:
    """Return the secrets by the variables that hold them."""
    if isinstance(value, list | tuple):
        names = f.items(f.text(), most=MOST_SECRETS)(value)
        if len(set(names)) != len(names):
            raise ValueError("names a variable twice")
        value = {name: secret_name(name) for name in names}
    if not isinstance(value, Mapping):
        raise ValueError("must be a list of variables, or a mapping such as {HF_TOKEN: hf-token}")
    if len(value) > MOST_SECRETS:
        raise ValueError(f"must have at most {MOST_SECRETS} entries")
    if broken := [one for pair in value.items() if (one := _broken(*pair)) is not None]:
        raise failure(broken)
    return dict(value)


def _broken(variable: Any, secret: Any) -> BrokenRule | None:
    if not isinstance(variable, str):
        return BrokenRule((str(variable),), "must be the name of a variable")
    problem = secret_variable_problem(variable)
    if not problem and not (isinstance(secret, str) and NAME.fullmatch(secret)):
        problem = f"the name of a secret {NAME_RULE}"
    return BrokenRule((variable,), problem, secret) if problem else None


def beside_env(secrets: Mapping[str, str], env: Mapping[str, str]) -> list[BrokenRule]:
    """Return errors for variables that are given twice."""
    rule = "is in env too: leave it out there"
    return [BrokenRule(("secrets", name), rule, secrets[name]) for name in secrets if name in env]


Secrets = Annotated[dict[str, str], f.judged(checked)]
