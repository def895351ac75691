"""Tables from the ``metrics.json`` of runs.

``.. results::`` shows test scores. Each line of its content is the name of a file in
``results/scores``, a colon, and the heading of its column. Rows are models, ordered by mean rank.
The number of parameters is taken from the first file that has it. Cells are means and standard
deviations over the runs; the best of each column is in bold.

``.. timings:: NAME`` shows the tables of that name in ``results/timings.json``, one for each size;
``.. timings:: NAME cuda`` shows those in ``results/timings_cuda.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

LOW = ("rmse", "mae")
TITLES = {
    "milliseconds": "ms",
    "products_milliseconds": "products",
    "peak_mebibytes": "MiB",
    "gigabytes_a_second": "GB/s",
    "gigaflop_a_second": "GFLOP/s",
    "products_gigaflop_a_second": "products alone",
}
COUNTS = ("parameters", "batches", "molecules", "molecules_a_second", "words_a_second")


def column(path: Path) -> pd.DataFrame:
    """The mean and deviation of each model's test scores, also as text, its rank and parameters."""
    runs = pd.read_json(path)
    found = runs.groupby("model")["test"].agg(["mean", "std"])
    found["rank"] = found["mean"].rank(ascending=runs["metric"][0] in LOW)
    texts = found["mean"].map("{:.3f}".format)
    spread = found["std"].fillna(0)
    texts = texts.where(spread < 1e-6, texts + spread.map(" ± {:.3f}".format))
    found["text"] = texts.where(found["rank"] > 1, "**" + texts + "**")
    counts = runs.groupby("model")["num_parameters"].first()
    found["parameters"] = counts.map("{:,.0f}".format, na_action="ignore").fillna("")
    return found


class Results(SphinxDirective):
    """The directive ``results``."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The nodes of the table."""
        columns: dict[str, pd.DataFrame] = {}
        for line in self.content:
            name, heading = (word.strip() for word in line.split(":", 1))
            path = Path(self.env.srcdir) / "results" / "scores" / f"{name}.json"
            self.env.note_dependency(str(path))
            columns[heading] = column(path)
        ranks = pd.DataFrame({heading: found["rank"] for heading, found in columns.items()})
        order = ranks.mean(axis=1).sort_values().index
        rows = [["model", "parameters", *columns]]
        rows += [[model, *self._cells(model, columns)] for model in order]
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in rows:
            lines += [f"   {'*' if place == 0 else ' '} - {cell}" for place, cell in enumerate(row)]
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def _cells(model: Any, columns: dict[str, pd.DataFrame]) -> list[str]:
        texts = [found["text"].get(model, "") for found in columns.values()]
        counts = (found["parameters"].get(model, "") for found in columns.values())
        return [next(filter(None, counts), ""), *texts]


class Timings(SphinxDirective):
    """The directive ``timings``."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A caption and a block of text for each size."""
        name, *device = self.arguments
        path = Path(self.env.srcdir) / "results" / f"{'_'.join(['timings', *device])}.json"
        self.env.note_dependency(str(path))
        tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
        lines: list[str] = []
        for found in tables:
            if found["table"] == name:
                text = self._text(pd.DataFrame(found["rows"]))
                lines += [found["size"], "", ".. code-block:: text", ""]
                lines += [*(f"   {line}" for line in text.splitlines()), ""]
        if not lines:
            raise self.error(f"{path} has no table {name!r}")
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def _text(rows: pd.DataFrame) -> str:
        """Aligns names left; times have two decimals, ratios have three, and counts have none."""
        width = rows["name"].str.len().max()
        cells = {"": rows["name"].str.ljust(width)}
        for key in rows.columns.drop("name"):
            title = TITLES.get(key, key.replace("over_", "/ ").replace("_a_second", " a s"))
            decimals = 3 if key.startswith("over_") else 0 if key in COUNTS else 2
            cells[title] = rows[key].map(f"{{:,.{decimals}f}}".format, na_action="ignore")
        return pd.DataFrame(cells).to_string(index=False, na_rep="")


def setup(app: Any) -> dict[str, bool]:
    """Registers the directives."""
    app.add_directive("results", Results)
    app.add_directive("timings", Timings)
    return {"parallel_read_safe": True}
