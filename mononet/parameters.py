"""Every parameter of every notebook in one table, and the files in `params/` held to it.

`resolve` is the one door: a notebook's YAML, the overlays over it and `-p name value` pairs pass
the same checks, so that a wrong name, type or value is one sentence before any training starts.
"""

import difflib
import hashlib
import math
import re
import reprlib
import shlex
from dataclasses import dataclass
from pathlib import Path

import yaml

PARAMS = Path(__file__).resolve().parents[1] / "params"
DATASETS = ("auto_mpg", "heart", "compas", "blog", "loan")
FLAVORS = ("mixed", "split", "mixed-residual", "split-residual", "deep")
BASELINES = ("hgb-monotone", "hgb", "linear", "mlp")
MODELS = FLAVORS + BASELINES


class ParameterError(Exception):
    """A parameter, or a file of parameters, that cannot be used as given."""


@dataclass(frozen=True)
class Parameter:
    """One row of the table.

    `kind` is int, float, str or bool, or "list of" one of them (not empty; without repetition, but
    for floats, which may be measurements);
    `low` and `high` are inclusive and, like `choices`, hold for each entry of a list.
    """

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    choices: tuple = ()
    nullable: bool = False
    help: str = ""

    @property
    def accepted(self) -> str:
        """What is accepted, in words."""
        names = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}
        entry = names[self.kind.removeprefix("list of ")]
        if self.choices:
            entry = " | ".join(map(str, self.choices))
        elif self.low is not None:
            entry += f" from {self.low:g} to {self.high:.12g}"
        text = f"list of {entry}" if self.kind.startswith("list of ") else entry
        return f"{text}, or null" if self.nullable else text


SEED = 2**31 - 1
TABLE = {
    row.name: row
    for row in (
        Parameter("models", "list of str", choices=MODELS, help="models studied, in this order"),
        Parameter("datasets", "list of str", choices=DATASETS, help="datasets of an experiment"),
        Parameter("model", "str", choices=MODELS, help="the model of an experiment"),
        Parameter("repetitions", "int", 1, 100_000, help="how often an experiment is repeated"),
        Parameter("n_trials", "int", 1, 10_000, help="trials of a search, for every model alike"),
        Parameter("search_seeds", "int", 1, 1000, help="seeds a fold in a search: 0, 1, …"),
        Parameter("cv_folds", "int", 1, 20, help="folds of the selection; 1 is the 80/20 holdout"),
        Parameter("cv_seed", "int", 0, SEED, help="seed that shuffles rows into folds"),
        Parameter("search_seed", "int", 0, SEED, help="seed of the sampler of trials"),
        Parameter("round_size", "int", 1, 1000, help="trials asked for at once; the first random"),
        Parameter(
            "objective",
            "str",
            choices=("risk_adjusted", "mean"),
            help="value of a trial over folds × seeds: mean worsened by one sd, or the mean",
        ),
        Parameter("max_epochs", "int", 1, 1000, help="largest number of epochs a trial may choose"),
        Parameter(
            "max_depth",
            "int",
            1,
            64,
            nullable=True,
            help="cap on the searched depth; never below a flavor's smallest (deep: 6)",
        ),
        Parameter("final_seeds", "int", 2, 1000, help="seeds of the final runs: 1000, 1001, …"),
        Parameter("partitions", "int", 1, 100, help="fresh partitions for the validation runs"),
        Parameter(
            "optimizer",
            "str",
            choices=("adamw", "adam"),
            help="weight decay decoupled (adamw), or added to the gradient (adam)",
        ),
        Parameter(
            "inputs",
            "str",
            choices=("published", "quantile"),
            help="columns as published, or through a monotone quantile transform",
        ),
        Parameter(
            "indicator",
            "str",
            choices=("corrected", "published"),
            help="monotone columns; the two differ on blog alone",
        ),
        Parameter(
            "max_rows",
            "int",
            50,
            10_000_000,
            nullable=True,
            help="use at most this many training rows",
        ),
        Parameter(
            "baseline_losses", "list of float", help="losses of the baseline, block by block"
        ),
        Parameter("challenger_losses", "list of float", help="those of the challenger"),
        Parameter("resamples", "int", 100, 100_000, help="resamples of every bootstrap"),
        Parameter("studies", "int", 10, 1_000_000, help="simulated studies a cell"),
        Parameter("block_counts", "list of int", 3, 1000, help="blocks of a simulated study"),
        Parameter("seed_counts", "list of int", 2, 1000, help="seeds a side of a simulated study"),
        Parameter("initializations", "int", 2, 100_000, help="untrained networks looked at"),
        Parameter("hidden_units", "int", 1, 1000, help="hidden units of the two-moons network"),
        Parameter("simulation_seed", "int", 0, SEED, help="seed of everything simulated"),
        Parameter("width", "int", 1, 4096, help="units of each layer of an experiment's networks"),
        Parameter("depth", "int", 1, 64, help="layers of an experiment's networks"),
        Parameter("batch_size", "int", 1, 65_536, help="rows of a step in an experiment"),
        Parameter("learning_rate", "float", 1e-6, 10, help="learning rate of an experiment"),
        Parameter("widths", "list of int", 2, 1024, help="widths of an experiment's networks"),
        Parameter("depths", "list of int", 1, 64, help="depths of an experiment's networks"),
        Parameter(
            "learning_rates", "list of float", 1e-6, 10, help="learning rates of an experiment"
        ),
        Parameter("steps", "int", 1, 1_000_000, help="steps of a training, to whole epochs"),
        Parameter(
            "engine",
            "str",
            choices=("auto", "compiled", "eager"),
            help="training step; auto compiles where a study has steps enough to pay for it",
        ),
        Parameter(
            "workers",
            "int",
            1,
            1024,
            nullable=True,
            help="processes that train; null is one a core",
        ),
        Parameter(
            "data_dir",
            "str",
            nullable=True,
            help="folder of the published files; null looks in the cache, then downloads",
        ),
        Parameter("row_counts", "list of int", 10, 1_000_000, help="numbers of training rows"),
        Parameter("stack_sizes", "list of int", 1, 10_000, help="runs that are trained together"),
        Parameter("batch_sizes", "list of int", 1, 65_536, help="rows of a step"),
        Parameter("worker_counts", "list of int", 1, 1024, help="processes that train at once"),
        Parameter("seconds", "float", 0.001, 600, help="seconds of training that are measured"),
        Parameter("shares", "list of float", 0.01, 1, help="shares of the training rows of a fold"),
        Parameter(
            "most_epochs",
            "int",
            1,
            1000,
            nullable=True,
            help="cap on a size's epochs or iterations",
        ),
        Parameter("studies_dir", "str", help="folder where recorded studies are read"),
        Parameter("results_dir", "str", help="folder where studies are recorded"),
        Parameter("outer_folds", "int", 2, 20, help="outer folds of nested cross-validation"),
        Parameter("splits", "int", 2, 100_000, help="random splits beside the published one"),
        Parameter("convex_fractions", "list of float", 0.0, 1.0, help="shares of convex units"),
        Parameter("weight_decays", "list of float", 0.0, 10.0, help="weight decays of a grid"),
        Parameter("clip_norm", "float", 1e-6, 1e6, help="gradient norm above which is clipped"),
        Parameter("grid_seeds", "int", 2, 1000, help="seeds of a cell of a grid: 1000, 1001, …"),
        Parameter("pool", "int", 1, 10_000, help="random configurations that searches draw from"),
        Parameter("searches", "int", 1, 10_000, help="resampled searches, for each way to select"),
        Parameter("fresh_seeds", "int", 1, 1000, help="final seeds that tell a collapse"),
        Parameter("configurations", "int", 1, 10_000, help="equally good ones to choose among"),
        Parameter("noise_sd", "float", 1e-6, 1.0, help="sd of the noise on a simulated score"),
        Parameter("truth", "float", 0.0, 10.0, help="true loss of every simulated configuration"),
        Parameter("runs", "str", help="CSV of final runs: model, seed, split, metric, value"),
        Parameter("blocks", "str", nullable=True, help="CSV of losses: block, model, loss"),
        Parameter("rule", "str", nullable=True, help="YAML file: what a review compares, and how"),
    )
}


def check(name, value):
    """`value` as the table's type for `name`, or ParameterError with what would be accepted.

    A whole number serves as float; nothing else is converted: true is no int, nor are 5.0 and "5".
    """
    if name not in TABLE:
        raise ParameterError(_unknown("parameter", name, TABLE))
    row = TABLE[name]
    if value is None and row.nullable:
        return None
    if not row.kind.startswith("list of "):
        return _entry(row, value)
    if not isinstance(value, list | tuple) or not value:
        raise _refused(row, value)
    entries = [_entry(row, each) for each in value]
    if len(set(entries)) < len(entries) and not row.kind.endswith("float"):
        raise ParameterError(f"{name}: {_shown(value)} names the same thing twice")
    return entries


def notebooks(params_dir=PARAMS) -> list[str]:
    """The notebooks that have a file of parameters, sorted; overlays and rules are none."""
    return [name for name in _stems(params_dir) if not _is_overlay(_load(params_dir, name))]


def resolve(notebook, overlays=(), pairs=(), params_dir=PARAMS) -> dict:
    """The parameters of `notebook`, checked: its file, then overlays, then (name, text) pairs.

    An overlay is a name in `params_dir` or a path. Its section `all` sets those of its names that
    the notebook has; the notebook's own section and the pairs may name only what it has.
    """
    if notebook not in _stems(params_dir):
        raise ParameterError(_unknown("notebook", notebook, notebooks(params_dir)))
    content = _load(params_dir, notebook)
    if _is_overlay(content):
        raise ParameterError(
            f"{notebook} is an overlay; a notebook is one of {', '.join(notebooks(params_dir))}"
        )
    values = _checked(_file(params_dir, notebook), content)
    for overlay in overlays:
        path = _file(params_dir, overlay)
        sections = _overlay(overlay, path, params_dir)
        shared = {name: v for name, v in sections.get("all", {}).items() if name in values}
        own = sections.get(notebook, {})
        for name in own:
            if name not in values:
                raise ParameterError(f"{path}: {_unknown('parameter', name, values, notebook)}")
        values |= shared | own
    for name, text in pairs:
        if name not in values:
            raise ParameterError(_unknown("parameter", name, values, notebook))
        values[name] = check(name, _parse(TABLE[name], text) if isinstance(text, str) else text)
    if values.get("objective") == "risk_adjusted" and (
        values.get("cv_folds") == values.get("search_seeds") == 1
    ):
        raise ParameterError(
            "objective risk_adjusted needs a spread, and cv_folds 1 with search_seeds 1 gives one "
            "value a trial; raise one of them or set objective to mean"
        )
    return values


def typed(value) -> str:
    """A parameter's value as one types it after -p."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "null" if value is None else str(value)


def given(notebook, names) -> dict:
    """The parameters of `notebook` out of a mapping (a notebook's globals), checked; its other
    names are left alone."""
    defaults = resolve(notebook)
    missing = [name for name in defaults if name not in names]
    if missing:
        raise ParameterError(f"{notebook}: no value for {', '.join(missing)}")
    return resolve(notebook, pairs=[(name, names[name]) for name in defaults])


def command(notebook, values) -> str:
    """The command that executes `notebook` with these values, three parameters a line."""
    defaults = resolve(notebook)
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    pairs = [f"-p {name} {shlex.quote(typed(value))}" for name, value in changed.items()]
    lines = [" ".join(pairs[i : i + 3]) for i in range(0, len(pairs), 3)]
    return " \\\n  ".join([f"python -m mononet run {notebook}", *lines])


def explain(notebook, params_dir=PARAMS) -> str:
    """The notebook's parameters as text: name and value, then meaning and accepted values."""
    lines = []
    for name, value in resolve(notebook, params_dir=params_dir).items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        lines.append(f"{name} = {'null' if shown is None else shown}")
        lines.append(f"    {TABLE[name].help} ({TABLE[name].accepted})")
    return "\n".join(lines)


def _entry(row, value):
    """One value of the row's type (of a list: one entry), within its bounds and choices."""
    kind = row.kind.removeprefix("list of ")
    if kind == "float" and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    # Text is a name or a path: what no terminal can show is a slip, and no file system takes a NUL.
    if type(value).__name__ != kind or (kind == "str" and not (value and value.isprintable())):
        raise _refused(row, value)
    if row.choices and value not in row.choices:
        near = difflib.get_close_matches(str(value), map(str, row.choices), 1)
        raise _refused(row, value, f"; did you mean {near[0]}?" if near else "")
    if kind in ("int", "float") and not (
        (kind == "int" or math.isfinite(value))
        and (row.low is None or value >= row.low)
        and (row.high is None or value <= row.high)
    ):
        raise _refused(row, value)
    return value


def _refused(row, value, hint=""):
    given = "null" if value is None else f"{_shown(value)} ({type(value).__name__})"
    if row.kind.endswith("float") and isinstance(value, str):
        hint = "; YAML takes 1e-3 for text, 1.0e-3 for a number"
    return ParameterError(f"{row.name}: expected {row.accepted}; given {given}{hint}")


_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 60
_BRIEF.maxlevel = 2


def _shown(value):
    """A value as Python writes it, shortened: it can be as long as a file."""
    if type(value) is int and value.bit_length() > 200:
        return f"a number of about {value.bit_length() * math.log10(2):,.0f} digits"
    return _BRIEF.repr(value)


def _parse(row, text):
    """The value that `text` from the command line stands for; text that fits no type stays text."""
    text = text.strip()
    if row.nullable and text in ("null", "none", "None"):
        return None
    if row.kind.startswith("list of "):
        return [_scalar(row.kind[8:], part) for part in text.strip("[]").split(",")]
    return _scalar(row.kind, text)


def _scalar(kind, text):
    text = text.strip()
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind == "int" and re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if kind == "float" and re.fullmatch(r"[+-]?([0-9]+\.?|[0-9]*\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def _unknown(what, name, known, notebook=None):
    near = difflib.get_close_matches(str(name), known, 3)
    text = f"unknown {what} {_shown(name)}" + (f" for {notebook}" if notebook else "")
    text += f"; did you mean {' or '.join(near)}?" if near else ";"
    # The whole list helps who is lost, and buries the answer for who mistyped.
    return text if near and len(known) > 25 else f"{text} {what}s: {', '.join(known)}"


def _stems(params_dir):
    return sorted(path.stem for path in Path(params_dir).glob("*.yaml") if "." not in path.stem)


def _file(params_dir, name):
    """The file of a notebook or overlay: a path as it is, a name in `params_dir`."""
    if "/" in str(name) or str(name).endswith((".yaml", ".yml")):
        return Path(name)
    return Path(params_dir) / f"{name}.yaml"


def _is_overlay(content):
    return bool(content) and all(isinstance(value, dict) for value in content.values())


def _overlay(name, path, params_dir):
    """The sections of an overlay, each name and value checked against the table."""
    if not path.is_file():
        others = [name for name in _stems(params_dir) if name not in notebooks(params_dir)]
        known = f"overlays in {params_dir}: {', '.join(others) or 'none'}"
        if Path(name).is_dir():
            raise ParameterError(f"{name} is a folder; an overlay is a YAML file; {known}")
        raise ParameterError(f"no overlay {name}: looked for the file {path}; {known}")
    sections = read_yaml(path)
    if not _is_overlay(sections):
        raise ParameterError(
            f"{path} is no overlay: it needs sections, `all:` or a notebook's name"
        )
    known = ["all", *notebooks(params_dir)]
    for section in sections:
        if section not in known:
            raise ParameterError(f"{path}: {_unknown('section', section, known)}")
    return {section: _checked(path, values) for section, values in sections.items()}


def _checked(path, values):
    try:
        return {name: check(name, value) for name, value in values.items()}
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None


def _load(params_dir, name):
    return read_yaml(_file(params_dir, name))


# A value fits a tuple by being one of it, a one-entry list entry by entry, a mapping key by key.
SIDES = ("above", "below", "equals", "above_quantile", "below_quantile")
RULE = {
    "challenger": FLAVORS,
    "baselines": [BASELINES],
    "second_comparison": {"flavors": [FLAVORS], "baseline": BASELINES, "trials": int},
    "loss": ("squared_error", "log_loss"),
    "gap_over_sd": float,
    "smallest_difference": {
        "value": float,
        "scale": ("mse", "rmse", "accuracy"),
        "unit": str,
        "why": str,
    },
    "slices": [dict],
    "groups": [dict],
    "blocks": ("rows", "days"),
    "limits": [str],
    "triggers": [str],
    "decision": str,
}


def read_rule(dataset, params_dir=PARAMS) -> dict:
    """The decision rule of a dataset, `<dataset>.rule.yaml`, held to `RULE`.

    A slice or group has a `name`, a `feature`, one side of `SIDES` (strict; a quantile is that of
    the training rows) and a `why`; exactly one slice is `shifted: true`.
    """
    path = _rule_file(dataset, params_dir)
    rule = read_yaml(path)
    try:
        _fit(rule, RULE, "rule")
        for where in ("slices", "groups"):
            for part in rule[where]:
                _fit_part(part, where)
        if sum("shifted" in part for part in rule["slices"]) != 1:
            raise ParameterError("slices: exactly one must be `shifted: true`")
    except ParameterError as error:
        raise ParameterError(f"{path}: {error}") from None
    return rule


def rule_sha256(dataset, params_dir=PARAMS) -> str:
    """SHA-256 of the rule's file, as `sha256sum` prints it."""
    return hashlib.sha256(_rule_file(dataset, params_dir).read_bytes()).hexdigest()


def _rule_file(dataset, params_dir):
    files = {each.name.split(".")[0]: each for each in Path(params_dir).glob("*.rule.yaml")}
    if dataset not in files:
        raise ParameterError(_unknown("rule", dataset, sorted(files)))
    return files[dataset]


def _fit(value, form, where):
    """Raise ParameterError unless `value` has the form that `RULE` explains; numbers are > 0."""
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise ParameterError(f"{where}: expected a mapping of {', '.join(form)}")
        for name in [*value, *form]:
            if name not in form:
                raise ParameterError(f"{where}: {_unknown('name', name, form)}")
            if name not in value:
                raise ParameterError(f"{where}: {name} is missing")
            _fit(value[name], form[name], name if where == "rule" else f"{where}: {name}")
    elif isinstance(form, list):
        if not isinstance(value, list) or not (value or where == "groups"):
            raise ParameterError(f"{where}: expected a list; given {value!r}")
        for entry in value:
            _fit(entry, form[0], where)
    elif isinstance(form, tuple):
        if value not in form:
            raise ParameterError(f"{where}: expected {' | '.join(form)}; given {value!r}")
    else:
        number = form in (int, float)
        fits = type(value) is form or (form is float and type(value) is int)
        if not fits or not value or (number and not 0 < value < math.inf):
            wanted = {int: "a whole number > 0", float: "a number > 0", str: "text"}
            raise ParameterError(
                f"{where}: expected {wanted.get(form, 'a mapping')}; given {value!r}"
            )


def _fit_part(part, where):
    sides = [side for side in SIDES if side in part]
    if len(sides) != 1:
        raise ParameterError(f"{where}: expected one of {', '.join(SIDES)} in {part!r}")
    value = part[sides[0]]
    if type(value) not in (int, float) or (sides[0].endswith("_quantile") and not 0 < value < 1):
        raise ParameterError(f"{where}: {sides[0]} {value!r} is out of range in {part!r}")
    if "shifted" in part and (where == "groups" or part["shifted"] is not True):
        raise ParameterError(f"{where}: `shifted` can only be true, and of a slice: {part!r}")
    words = {key: text for key, text in part.items() if key not in (sides[0], "shifted")}
    _fit(words, {"name": str, "feature": str, "why": str}, where)


# What PyYAML lets out where a value is not what its tag or its form says: `!!int x`, 2026-02-30,
# a number of 5,000 digits, a list a thousand deep.
_FROM_PYYAML = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)


class _Loader(yaml.SafeLoader):
    """Plain values only, and no key twice (PyYAML keeps the last one and says nothing)."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} stands twice", problem_mark=node.start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path) -> dict:
    """The mapping of names that a YAML file holds (empty file: empty), or ParameterError."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise ParameterError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ParameterError(f"{path} is not UTF-8 text") from error
    except (yaml.YAMLError, *_FROM_PYYAML) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        problem = str(getattr(error, "problem", None) or error).partition("\n")[0]
        raise ParameterError(f"{path}{where} is not usable YAML: {problem}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ParameterError(f"{path}: expected a mapping of names to values")
    return content
