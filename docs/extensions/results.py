"""``.. results::``, a table of test scores from the ``metrics.json`` of runs.

Each line of its content is the name of a file in ``results/scores``, a colon, and the heading of
its column. Rows are models, ordered by their mean rank; cells are means and standard deviations
over the runs, the best of each column in bold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

LOW = ("rmse", "mae")


def column(path: Path) -> pd.DataFrame:
    """The mean and deviation of each model's test scores, their texts, and their ranks."""
    runs = pd.read_json(path)
    found = runs.groupby("model")["test"].agg(["mean", "std"])
    found["rank"] = found["mean"].rank(ascending=runs["metric"][0] in LOW)
    texts = found["mean"].map("{:.3f}".format)
    spread = found["std"].fillna(0)
    texts = texts.where(spread < 1e-6, texts + spread.map(" ± {:.3f}".format))
    found["text"] = texts.where(found["rank"] > 1, "**" + texts + "**")
    return found


class Results(SphinxDirective):
    """The directive."""

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
        rows = [["model", *columns], *([model, *self._cells(model, columns)] for model in order)]
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in rows:
            lines += [f"   {'*' if place == 0 else ' '} - {cell}" for place, cell in enumerate(row)]
        return self.parse_text_to_nodes("\n".join(lines))

    @staticmethod
    def _cells(model: Any, columns: dict[str, pd.DataFrame]) -> list[str]:
        return [found["text"].get(model, "") for found in columns.values()]


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("results", Results)
    return {"parallel_read_safe": True}
