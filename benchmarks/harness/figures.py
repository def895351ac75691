"""Figures of panels, and figures composed of pictures."""

import io
from collections.abc import Sequence

import matplotlib.image
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def panels(
    number: int, columns: int, size: tuple[float, float], title: str = "", share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with panels in rows."""
    columns = max(1, min(columns, number))
    rows = max(1, -(-number // columns))
    figure = Figure((size[0] * columns, size[1] * rows + 0.6 * bool(title)), layout="constrained")
    found = list(figure.subplots(rows, columns, squeeze=False, sharey=share_y).flat)
    for axes in found[number:]:
        axes.axis("off")
    if title:
        figure.suptitle(title, fontsize="medium", wrap=True)
    return figure, found[:number]


def picture_grid(rows: Sequence[Sequence[tuple[str, bytes]]]) -> Figure:
    """A grid of pictures, each below its title."""
    columns = max((len(row) for row in rows), default=1)
    figure, found = panels(columns * max(1, len(rows)), columns, (2.4, 1.8))
    for axes in found:
        axes.axis("off")
    for k, row in enumerate(rows):
        for axes, (title, picture) in zip(found[k * columns :], row, strict=False):
            axes.imshow(matplotlib.image.imread(io.BytesIO(picture), format="png"))
            axes.set_title(title, fontsize="x-small")
    return figure
