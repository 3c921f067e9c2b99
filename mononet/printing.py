"""How numbers, tables and boxes are printed: digits, HTML, and links to the files behind them."""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from mononet import data
from mononet.study import Study

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "book/results"
NONE = "–"
TITLES = {
    "auto_mpg": "Auto MPG",
    "heart": "Heart",
    "compas": "COMPAS",
    "blog": "Blog",
    "loan": "Loan",
}
UNITS = {"auto_mpg": "mpg²", "blog": "comments ÷ 8"}  # of the metric; an accuracy is in percent


class Html(str):
    """Text that a notebook shows as HTML, and that `render` does not escape again."""

    def _repr_html_(self) -> str:
        return str(self)

    def __add__(self, other: str) -> Html:
        return Html(str(self) + str(other))

    def __repr__(self) -> str:
        return f"<{len(self)} characters of HTML>"


@dataclass(frozen=True)
class Column:
    """A printed column: `text` makes its cell from a row of the frame (a mapping)."""

    title: str
    text: Callable[[Mapping], str]
    kind: str = "num"  # CSS class: num, mn-prior or nothing
    group: str = ""  # a heading over neighboring columns


# --- digits -------------------------------------------------------------------------------------


def decimals(spread: float) -> int:
    """Decimals that leave `spread` two significant digits, whatever its sign; 2 where there is
    none but rounding."""
    if not (math.isfinite(spread) and abs(spread) > 1e-9):
        return 2
    return max(0, 1 - math.floor(math.log10(float(f"{abs(spread):.1e}"))))


def number(value: float, digits: int) -> str:
    """`value` with so many decimals and a true minus; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return NONE
    text = f"{value:,.{digits}f}"
    return text.replace("-", "−") if float(text.replace(",", "")) else text.lstrip("-")


def significant(value: float, digits: int = 2) -> str:
    """`value` with so many significant digits, never in powers of ten."""
    if value is None or not math.isfinite(value) or value == 0:
        return NONE if value != 0 else "0"
    return number(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def plus_minus(mean: float, std: float, n: int | None = None) -> str:
    """mean ± std (n = …), no more digits than the spread has."""
    digits = decimals(std)
    text = number(mean, digits) + (f" ± {number(std, digits)}" if math.isfinite(std) else "")
    return text + (f" (n = {n:.0f})" if n is not None else "")


def as_published(row: Mapping, factor: float) -> str:
    """A row of `frames.published` times `factor`, with as many digits as were printed."""
    digits = int(row["decimals"])
    std = f" ± {number(factor * row['std'], digits)}" if math.isfinite(row["std"]) else ""
    return number(factor * row["mean"], digits) + std


def scale(metric: str) -> float:
    """What a metric is multiplied with in print: accuracy is a fraction everywhere else."""
    return 100.0 if metric == "accuracy" else 1.0


def metric_title(dataset: str) -> str:
    """The metric with its unit, as in `MSE (mpg²)`."""
    metric = data.SPECS[dataset].metric
    return "accuracy (%)" if metric == "accuracy" else f"{metric.upper()} ({UNITS[dataset]})"


# --- HTML ----------------------------------------------------------------------------------------


def render(
    frame: pd.DataFrame,
    columns: Sequence[Column],
    caption: str,
    note: str = "",
    *,
    source: str = "",
    corner: str = "",
    numbers: pd.DataFrame | None = None,
) -> Html:
    """The frame as an HTML table, its index as row headings, and a link to its numbers as CSV.

    `caption` is one short sentence over the table, `note` explains it below; both are text,
    `source` is HTML. `numbers` is what the CSV holds where that is not the frame. A table of many
    columns is set closer.
    """
    spans: list[list] = [["", 1]]
    for column in columns:
        if column.group == spans[-1][0]:
            spans[-1][1] += 1
        else:
            spans.append([column.group, 1])
    head = ""
    if len(spans) > 1:
        cells = "".join(f'<th colspan="{n}" scope="colgroup">{_text(t)}</th>' for t, n in spans)
        head = f'<tr class="mn-group">{cells}</tr>'
    titles = "".join(f'<th scope="col" class="{c.kind}">{_title(c.title)}</th>' for c in columns)
    head += f'<tr><th scope="col">{_text(corner)}</th>{titles}</tr>'
    body = ""
    for name, row in zip(frame.index, frame.to_dict("records"), strict=True):
        cells = "".join(f'<td class="{c.kind}">{_text(c.text(row))}</td>' for c in columns)
        body += f'<tr><th scope="row">{_text(name)}</th>{cells}</tr>\n'
    css = "mn-table mn-dense" if len(columns) > 2 else "mn-table"
    under = f'<p class="mn-note">{_text(note)}</p>' if note else ""
    return Html(
        f'<div class="{css}" tabindex="0" role="region" aria-label="{_text(caption)}"><table>'
        f"<caption>{_text(caption)}</caption>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody>"
        f"</table></div>{under}{source}{download(frame if numbers is None else numbers, caption)}"
    )


def download(frame: pd.DataFrame, caption: str) -> Html:
    """A link under a table that saves its numbers, unrounded, as a CSV file named after it."""
    index = not isinstance(frame.index, pd.RangeIndex)
    names = [name or "row" for name in frame.index.names]
    text = frame.to_csv(index=index, index_label=names)
    content = base64.b64encode(text.encode()).decode()
    name = re.sub(r"[^a-z0-9]+", "-", caption.lower()).strip("-")[:60].strip("-")
    return Html(
        f'<p class="mn-source"><a download="{name}.csv" href="data:text/csv;base64,{content}">'
        "Download the numbers of this table as CSV</a></p>"
    )


def _text(value) -> str:
    return str(value) if isinstance(value, Html) else html.escape(str(value))


def _title(title: str) -> str:
    """A column's title; a line of it does not break within "n = 20"."""
    return _text(title).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")


def is_published(results_dir: str | Path) -> bool:
    """Whether a folder of results is the one that the site carries and pages may link to."""
    return Path(results_dir).resolve() == RESULTS


def link(study: Study, path: str, text: str, up: str = "../") -> Html:
    """A link to a file of the dataset's results; plain text where the site does not carry it."""
    shown = html.escape(text)
    if not (is_published(study.parameters["results_dir"]) and (study.shelf / path).is_file()):
        return Html(shown)
    return Html(f'<a href="{html.escape(f"{up}results/{study.dataset}/{path}")}">{shown}</a>')


def source(studies: Iterable[Study], *names: str) -> Html:
    """The line under a table or figure: the files that it was made from, study by study."""
    studies = list(studies)
    made = f'<p class="mn-source">Made from {files(studies, *names)}.</p>'
    return Html(made if studies else "")


def files(studies: Sequence[Study], *names: str) -> Html:
    """Files of several studies, each with a link a study."""
    parts = [
        f"<code>{html.escape(name)}</code> of "
        + ", ".join(link(s, f"{s.folder.name}/{name}", s.model) for s in studies)
        for name in names
    ]
    return Html("; ".join(parts))


def box(kind: str, title: str, *paragraphs: str) -> Html:
    """A box: `kind` is missing, ok, warn or nothing; a paragraph is text, or Html as it is."""
    shown = "".join(p if isinstance(p, Html) else f"<p>{_text(p)}</p>" for p in paragraphs)
    css = f"mn-box mn-{kind}" if kind else "mn-box"
    return Html(f'<div class="{css}"><p class="mn-title">{_text(title)}</p>{shown}</div>')


def commands(*lines: str) -> Html:
    """Lines to type, as they are."""
    return Html(f"<pre><code>{html.escape(chr(10).join(lines))}</code></pre>")
