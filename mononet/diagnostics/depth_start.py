"""Depth explosion at the start: scale and effective rank of activations, layer by layer.

Stacks of square layers on standard-normal input, weights drawn by several schemes and multiplied
by a scalar, biases zero; nothing is trained here.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from mononet.experiments import Experiment
from mononet.layers import GAIN, MODES, MonoLinear, MonoResidual
from mononet.training import one_thread

LAYERS, ROWS, MIDDLE = 20, 512, 64
SETTLED = 5  # the layer from which a stack's growth is measured: the first ones turn the rows
# Standard deviation of normal weights, or end of a uniform interval around zero, for m inputs and
# outputs: He et al. (2015), Glorot & Bengio (2010), and 1/√m, the default of common libraries.
SCHEMES = {
    "He normal": ("normal", lambda m: math.sqrt(2 / m)),
    "design": ("normal", lambda m: GAIN * math.sqrt(2 / m)),
    "Glorot normal": ("normal", lambda m: math.sqrt(1 / m)),
    "He uniform": ("uniform", lambda m: math.sqrt(6 / m)),
    "Glorot uniform": ("uniform", lambda m: math.sqrt(3 / m)),
    "fan-in uniform": ("uniform", lambda m: math.sqrt(1 / m)),
}
ACTIVATIONS = ("relu", "elu", "selu", "softplus", "identity")
SELU_SLOPE = 1.0507009873554805  # for positive input; Klambauer et al. (2017)
FRACTIONS = (0.0, 0.25, 0.75, 1.0)
SCALES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7, 1.4)


@dataclass(frozen=True)
class Setting:
    """One kind of stack; ``grid`` names the comparison that it belongs to."""

    grid: str
    mode: str
    activation: str
    width: int
    fraction: float = 0.5
    scheme: str = "He normal"
    scale: float = 1.0
    residual: bool = False


def law(setting: Setting) -> float:
    """The factor a layer that a plain stack's scale tends to: c λ m E|W| max(f, 1−f)

    for m units of which the fraction f is convex, weights c·W, and an activation that is λh for
    large positive h and bounded for negative h; without the maximum for the identity. With He's
    normal weights E|W| = 2/√(πm), so that half of the units convex give √(m/π). In split mode half
    of the weights take the place of half of the units.
    """
    kind, size = SCHEMES[setting.scheme]
    m, of = setting.width, size(setting.width)
    mean = of * math.sqrt(2 / math.pi) if kind == "normal" else of / 2
    convex = math.ceil(setting.fraction * m) / m if setting.mode == "mixed" else 0.5
    share = 1.0 if setting.activation == "identity" else max(convex, 1 - convex)
    slope = SELU_SLOPE if setting.activation == "selu" else 1.0
    return setting.scale * slope * m * mean * share


def spread(x: Tensor) -> tuple[Tensor, Tensor]:
    """sd and effective rank over rows of activations (seeds, rows, units), each (seeds,).

    The sd is the root of the units' mean variance. The effective rank is the exponential of the
    entropy of the eigenvalues of the covariance, normalized to sum one (Roy & Vetterli, 2007, with
    squared singular values: each direction counts by its share of the variance). It is NaN where
    nothing varies.
    """
    x = x - x.mean(1, keepdim=True)
    values = torch.linalg.eigvalsh(x.mT @ x / x.shape[1]).clamp(min=0)
    total = values.sum(-1)
    share = values / total[:, None]
    return (total / x.shape[-1]).sqrt(), torch.special.entr(share).sum(-1).exp()


def layer(setting: Setting, seeds: int, generator: torch.Generator) -> torch.nn.Module:
    """One layer or block for all seeds, its weights drawn by the setting's scheme."""
    kind = MonoResidual if setting.residual else MonoLinear
    m, runs = setting.width, (seeds,)
    options = {"mode": setting.mode, "activation": setting.activation, "runs": runs}
    made = kind(m, m, convex_fraction=setting.fraction, **options).double()
    weight = (made.layer if setting.residual else made).weight
    draw, size = SCHEMES[setting.scheme]
    with torch.no_grad():
        if draw == "normal":
            weight.normal_(std=size(m), generator=generator)
        else:
            weight.uniform_(-size(m), size(m), generator=generator)
        weight.mul_(setting.scale)
    return made


def profile(setting: Setting, seeds: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """sd and effective rank of the input and after each of 20 layers, each (seeds, layers + 1)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(seeds, ROWS, setting.width, generator=generator, dtype=torch.float64)
    found = [spread(x)]
    with torch.no_grad(), one_thread():
        for _ in range(LAYERS):
            x = layer(setting, seeds, generator)(x)
            found.append(spread(x))
    sd, rank = (torch.stack(each, 1).numpy() for each in zip(*found, strict=True))
    return sd, rank


def settings(widths) -> list[Setting]:
    """Every stack that is looked at, comparison by comparison."""
    middle = MIDDLE if MIDDLE in widths else max(widths)
    pairs = [p for p in itertools.product(MODES, ACTIVATIONS) if p != ("split", "identity")]
    bent = list(itertools.product(MODES, ("relu", "elu")))
    return [
        *(Setting("width", *pair, width) for pair in pairs for width in widths),
        *(Setting("fraction", "mixed", "relu", middle, fraction=f) for f in FRACTIONS),
        *(Setting("scheme", *pair, middle, scheme=s) for pair in bent for s in SCHEMES),
        *(Setting("scale", *pair, middle, scale=c) for pair in bent for c in (*SCALES, 1.0)),
        *(
            Setting("residual", mode, "elu", width, scheme="design", residual=True)
            for mode in MODES
            for width in widths
        ),
    ]


def start(experiment: Experiment) -> pd.DataFrame:
    """A row a setting and layer: median, smallest and largest sd and effective rank over seeds."""
    given, found = experiment.parameters, []
    for setting in settings(given["widths"]):
        sd, rank = profile(setting, given["final_seeds"])
        for number in range(LAYERS + 1):
            row = asdict(setting) | {"layer": number}
            for name, values in (("sd", sd[:, number]), ("rank", rank[:, number])):
                low, middle, high = np.quantile(values, [0, 0.5, 1])
                row |= {name: middle, f"{name}_low": low, f"{name}_high": high}
            found.append(row)
    return pd.DataFrame(found)


def growth(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a setting of a ``start`` table: measured factor a layer once settled, and the law's.

    The factor is the geometric mean over the layers after the fifth; ``rank_3`` the effective rank
    after the third layer.
    """
    names = list(Setting.__dataclass_fields__)
    wide = frame.pivot_table(index=names, columns="layer", values=["sd", "rank"], sort=False)
    found = wide.index.to_frame(index=False)
    factor = (wide["sd", LAYERS] / wide["sd", SETTLED]) ** (1 / (LAYERS - SETTLED))
    predicted = [law(Setting(*key)) for key in wide.index]
    return found.assign(
        factor=factor.to_numpy(),
        law=predicted,
        total=(wide["sd", LAYERS] / wide["sd", 0]).to_numpy(),
        rank_3=wide["rank", 3].to_numpy(),
        rank_last=wide["rank", LAYERS].to_numpy(),
    )


def two_directions() -> float:
    """Effective rank of a layer whose units carry max(s, 0) or min(s, 0), half each, s normal.

    The two have variance 1/2 − 1/(2π) and covariance 1/(2π), so that the covariance matrix has
    the eigenvalues 1/2 and 1/2 − 1/π.
    """
    values = np.array([0.5, 0.5 - 1 / math.pi])
    share = values / values.sum()
    return float(np.exp(-(share * np.log(share)).sum()))
