"""Figures that are made of pictures."""

import io
from collections.abc import Sequence

import matplotlib.image
from matplotlib.figure import Figure


def picture_grid(rows: Sequence[Sequence[tuple[str, bytes]]]) -> Figure:
    """Pictures under their titles, side by side and one row below the other."""
    columns = max((len(row) for row in rows), default=1)
    figure = Figure(figsize=(2.4 * columns, 1.8 * max(1, len(rows))), layout="constrained")
    panels = figure.subplots(max(1, len(rows)), columns, squeeze=False)
    for axes in panels.flat:
        axes.axis("off")
    for line, row in zip(panels, rows, strict=False):
        for axes, (title, picture) in zip(line, row, strict=False):
            axes.imshow(matplotlib.image.imread(io.BytesIO(picture), format="png"))
            axes.set_title(title, fontsize="x-small")
    return figure
