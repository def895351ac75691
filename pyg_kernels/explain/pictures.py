"""Attributions as pictures: molecules and texts coloured by what each part contributes.

RDKit and matplotlib are imported only where they are used: attributions need neither of them.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from pyg_kernels.checks import checked_choice, is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Tensor | Sequence[float]
NGrams = Sequence[tuple[Sequence[int], float]]
Color = tuple[float, float, float]

POSITIVE: Color = (0.84, 0.15, 0.16)
NEGATIVE: Color = (0.12, 0.35, 0.80)
GROUND = 0.7  # strength of the colour behind the largest contribution: letters stay readable
FAINT = 0.03  # share of the largest contribution below which an atom or a bond stays white
INCHES_A_TOKEN = 0.42
MOST_INCHES = 120.0


def ground(fraction: float) -> Color:
    """The colour behind a contribution: white at 0, red towards 1 and blue towards -1.

    Args:
        fraction: A contribution over the largest one; larger ones count as 1.

    Returns:
        Red, green and blue in [0, 1].
    """
    end = POSITIVE if fraction > 0 else NEGATIVE
    weight = GROUND * min(1.0, abs(fraction))
    red, green, blue = (1.0 - weight * (1.0 - channel) for channel in end)
    return red, green, blue


def draw_molecule(
    mol: Any,
    nodes: Values,
    edges: Values | None = None,
    edge_index: Tensor | None = None,
    *,
    scale: float | None = None,
    size: tuple[int, int] = (420, 320),
    legend: str = "",
    file_format: Literal["svg", "png"] = "svg",
) -> bytes:
    r"""A molecule whose atoms and bonds are coloured by signed contributions: red above 0, blue
    below, white at 0.

    A bond shows the sum over its two directed edges.

    Args:
        mol: An RDKit molecule or a SMILES string. Values follow the order of its atoms.
        nodes: (N,) one value per atom.
        edges: (E,) one value per directed edge, or None to colour atoms alone.
        edge_index: (2, E), required with `edges`.
        scale: The value that gets the full colour, by default the largest absolute value of all
            atoms and bonds. Pictures with the same scale are comparable.
        size: Width and height in pixels.
        legend: A line below the molecule.
        file_format: ``'svg'`` or ``'png'``.

    Returns:
        The content of the file.

    Raises:
        ImportError: If RDKit is not installed.
        TypeError: If `mol` is neither a molecule nor a string, `edge_index` is not a tensor of
            whole numbers, or values are not numbers.
        ValueError: If the SMILES cannot be read, the values do not fit the molecule, an edge joins
            atoms without a bond, only one of `edges` and `edge_index` is given, or the scale, the
            size or the format is invalid.

    Example:
        >>> from pyg_kernels.explain import draw_molecule
        >>> draw_molecule("CCO", [0.1, 0.0, -0.6], legend="shares of atoms").startswith(b"<?xml")
        True
    """
    from rdkit import Chem
    from rdkit.Chem.Draw import rdMolDraw2D

    checked_choice(file_format, "file_format", ("svg", "png"))
    if scale is not None and not (is_number(scale) and 0 < scale < float("inf")):
        raise ValueError(f"scale={scale!r}: expected a positive number")
    width, height = _checked_size(size)
    molecule = _as_molecule(mol)
    atoms = _checked_values(nodes, "nodes", molecule.GetNumAtoms(), "atoms")
    bonds = _bond_values(molecule, edges, edge_index)
    unit = scale or largest([*atoms, *bonds.values()])
    colors, bond_colors = (
        {i: ground(v / unit) for i, v in values.items() if abs(v) > FAINT * unit}
        for values in (dict(enumerate(atoms)), bonds)
    )
    canvas = rdMolDraw2D.MolDraw2DSVG if file_format == "svg" else rdMolDraw2D.MolDraw2DCairo
    drawer: Any = canvas(width, height)
    options = drawer.drawOptions()
    options.useBWAtomPalette()
    options.highlightBondWidthMultiplier = 14
    drawer.DrawMolecule(
        rdMolDraw2D.PrepareMolForDrawing(Chem.Mol(molecule)),
        legend=legend,
        highlightAtoms=list(colors),
        highlightAtomColors=colors,
        highlightBonds=list(bond_colors),
        highlightBondColors=bond_colors,
    )
    drawer.FinishDrawing()
    content: str | bytes = drawer.GetDrawingText()
    return content.encode() if isinstance(content, str) else content


def text_html(tokens: Sequence[str], values: Values, ngrams: NGrams | None = None) -> str:
    """A text whose tokens are coloured by signed contributions, as HTML.

    Args:
        tokens: The T tokens.
        values: (T,) one value per token.
        ngrams: The best n-grams, as pairs of positions and value; listed below the text.

    Returns:
        A self-contained ``<div>``, in which tokens are escaped.

    Raises:
        TypeError: If a token is not a string, or values are not numbers.
        ValueError: If the values do not fit the tokens or are not finite, or an n-gram has a
            position outside the text.

    Example:
        >>> from pyg_kernels.explain import text_html
        >>> text_html(["not", "bad"], [-0.2, 0.7], [((0, 1), 0.5)]).startswith("<div")
        True
    """
    contributions = _checked_values(values, "values", len(_checked_tokens(tokens)), "tokens")
    named = _checked_ngrams(ngrams, tokens)
    unit = largest(contributions)
    spans = [
        f'<span style="background:{_css(value / unit)};padding:0 2px" title="{value:+.4g}">'
        f"{html.escape(token)}</span>"
        for token, value in zip(tokens, contributions, strict=True)
    ]
    lines = ['<div class="contributions">', f"<p>{' '.join(spans)}</p>"]
    if named:
        unit = largest(value for _, value in named)
        lines.append("<table>")
        for name, value in named:
            lines.append(
                f'<tr><td style="background:{_css(value / unit)};text-align:right">{value:+.4g}'
                f"</td><td>{html.escape(name)}</td></tr>"
            )
        lines.append("</table>")
    return "\n".join([*lines, "</div>"])


def draw_text(
    tokens: Sequence[str],
    values: Values,
    ngrams: NGrams | None = None,
    gates: Tensor | Sequence[float] | None = None,
    title: str = "",
) -> Figure:
    """A text as a figure: a bar for each token, the best n-grams, and the gates if given.

    Args:
        tokens: The T tokens.
        values: (T,) one value per token: the height of its bar, red above 0 and blue below.
        ngrams: The best n-grams, as pairs of positions and value; the first is drawn on top.
        gates: (T,) or (T, H): the decays or gates at each token. For H channels, the figure shows
            their mean and the range from the first to the third quartile.
        title: The title of the figure.

    Raises:
        ImportError: If matplotlib is not installed.
        TypeError: If a token is not a string, or values or gates are not numbers.
        ValueError: If there are no tokens, values or gates do not fit them, a value is not finite,
            a gate is outside [0, 1], or an n-gram has a position outside the text.

    Example:
        >>> from pyg_kernels.explain import draw_text
        >>> figure = draw_text(["not", "bad"], [-0.2, 0.7], [((0, 1), 0.5)])
        >>> figure.savefig("text.png")  # doctest: +SKIP
    """
    import matplotlib
    from matplotlib.figure import Figure

    if not len(_checked_tokens(tokens)):
        raise ValueError("tokens is empty: a text without tokens has no picture")
    contributions = _checked_values(values, "values", len(tokens), "tokens")
    rows = None if gates is None else _checked_gates(gates, len(tokens))
    named = _checked_ngrams(ngrams, tokens)
    heights = [2.4, *[0.4 + 0.24 * len(named)] * bool(named), *[1.6] * (rows is not None)]
    width = min(MOST_INCHES, max(5.0, 1.5 + INCHES_A_TOKEN * len(tokens)))
    with matplotlib.rc_context({"text.parse_math": False}):  # "$" in a token is no formula
        figure = Figure(figsize=(width, sum(heights) + 0.9), layout="constrained")
        panels = list(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
        _token_panel(panels.pop(0), tokens, contributions)
        if named:
            _ngram_panel(panels.pop(0), named)
        if rows is not None:
            _gate_panel(panels.pop(0), tokens, rows)
        if title:
            figure.suptitle(title, fontsize="medium")
    return figure


def ngram_name(tokens: Sequence[str], positions: Sequence[int]) -> str:
    """The tokens of an n-gram, with an ellipsis where it skips some: ``not … good``.

    Raises:
        TypeError: If a position is not a whole number.
        ValueError: If a position is outside the tokens.
    """
    words: list[str] = []
    before = None
    for position in positions:
        if isinstance(position, bool) or not isinstance(position, Integral):
            raise TypeError(f"ngrams: position {position!r} is no whole number")
        if not 0 <= position < len(tokens):
            raise ValueError(
                f"ngrams: position {position} is outside a text of {len(tokens)} tokens"
            )
        if before is not None and position != before + 1:
            words.append("…")
        words.append(tokens[position])
        before = position
    return " ".join(words)


def largest(values: Iterable[float]) -> float:
    """The largest absolute value, or 1 if all are 0: colours are relative to it."""
    return max(map(abs, values), default=0.0) or 1.0


def _as_molecule(mol: Any) -> Any:
    from rdkit import Chem

    if isinstance(mol, Chem.Mol):
        return mol
    if not isinstance(mol, str):
        raise TypeError(
            f"mol is a {type(mol).__name__}: expected an RDKit molecule or a SMILES string"
        )
    molecule = Chem.MolFromSmiles(mol)
    if molecule is None:
        raise ValueError(f"mol={mol!r}: not a SMILES string that RDKit can read")
    return molecule


def _numbers(values: Any, name: str) -> Tensor:
    """The given values as a tensor of real numbers, on the CPU."""
    try:
        tensor = torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: expected numbers, {error}") from error
    if tensor.is_complex():
        raise TypeError(f"{name} has dtype {tensor.dtype}: expected real numbers")
    return tensor.double()


def _checked_size(size: Any) -> tuple[int, int]:
    """Width and height in pixels."""
    sides = list(size) if isinstance(size, (tuple, list)) else []
    whole = all(isinstance(side, Integral) and not isinstance(side, bool) for side in sides)
    if len(sides) != 2 or not whole or min(sides) < 1:
        raise ValueError(f"size={size!r}: expected width and height, whole numbers of at least 1")
    return int(sides[0]), int(sides[1])


def _checked_tokens(tokens: Sequence[str]) -> Sequence[str]:
    for number, token in enumerate(tokens):
        if not isinstance(token, str):
            raise TypeError(f"tokens[{number}] is a {type(token).__name__}: expected a string")
    return tokens


def _checked_ngrams(ngrams: NGrams | None, tokens: Sequence[str]) -> list[tuple[str, float]]:
    """The names and the values of n-grams."""
    try:
        pairs = [(list(positions), value) for positions, value in ngrams or ()]
    except (TypeError, ValueError) as error:
        raise TypeError("ngrams: expected pairs of positions and value") from error
    values = _checked_values([value for _, value in pairs], "ngrams", len(pairs), "n-grams")
    names = [ngram_name(tokens, positions) for positions, _ in pairs]
    return list(zip(names, values, strict=True))


def _checked_values(values: Values, name: str, number: int, of: str) -> list[float]:
    """The values as floats, one for each of a number of atoms, edges or tokens."""
    tensor = _numbers(values, name)
    if tensor.dim() != 1 or len(tensor) != number:
        raise ValueError(
            f"{name} has the shape {tuple(tensor.shape)}: expected ({number},), there are "
            f"{number} {of}"
        )
    if not tensor.isfinite().all():
        raise ValueError(f"{name} has values that are not finite")
    return [float(value) for value in tensor.tolist()]


def _checked_gates(gates: Tensor | Sequence[float], number: int) -> Tensor:
    tensor = _numbers(gates, "gates")
    if tensor.dim() not in (1, 2) or len(tensor) != number or not tensor.numel():
        raise ValueError(
            f"gates has the shape {tuple(tensor.shape)}: expected ({number},) or ({number}, H)"
        )
    if not ((tensor >= 0) & (tensor <= 1)).all():  # NaN fails, too
        raise ValueError("gates has values outside [0, 1]")
    return tensor.reshape(number, -1)


def _bond_values(
    molecule: Any, edges: Values | None, edge_index: Tensor | None
) -> dict[int, float]:
    """The sum of each bond's directed edges, by the index of the bond."""
    if (edges is None) != (edge_index is None):
        raise ValueError("edges and edge_index go together: give both or neither")
    if edges is None or edge_index is None:
        return {}
    pairs = _checked_edge_index(edge_index).t().tolist()
    values = _checked_values(edges, "edges", len(pairs), "columns of edge_index")
    bonds: dict[int, float] = {}
    for (u, v), value in zip(pairs, values, strict=True):
        inside = min(u, v) >= 0 and max(u, v) < molecule.GetNumAtoms()
        bond = molecule.GetBondBetweenAtoms(u, v) if inside and u != v else None
        if bond is None:
            raise ValueError(f"edge_index: atoms {u} and {v} have no bond between them")
        bonds[bond.GetIdx()] = bonds.get(bond.GetIdx(), 0.0) + value
    return bonds


def _checked_edge_index(edge_index: Any) -> Tensor:
    if not isinstance(edge_index, Tensor):
        raise TypeError(f"edge_index is a {type(edge_index).__name__}: expected a tensor")
    kind = edge_index.dtype
    if kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise TypeError(f"edge_index has dtype {kind}: expected whole numbers")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ValueError(f"edge_index has the shape {tuple(edge_index.shape)}: expected (2, E)")
    return edge_index


def _css(fraction: float) -> str:
    red, green, blue = (round(255 * channel) for channel in ground(fraction))
    return f"rgb({red},{green},{blue})"


def _token_panel(axes: Axes, tokens: Sequence[str], values: Sequence[float]) -> None:
    colors = [POSITIVE if value > 0 else NEGATIVE for value in values]
    axes.bar(range(len(tokens)), values, color=colors)
    axes.axhline(0, color="0.4", linewidth=0.6)
    _name_tokens(axes, tokens)
    axes.set_ylabel("contribution")


def _ngram_panel(axes: Axes, named: Sequence[tuple[str, float]]) -> None:
    values = [value for _, value in named]
    colors = [POSITIVE if value > 0 else NEGATIVE for value in values]
    axes.barh(range(len(named)), values, color=colors)
    axes.axvline(0, color="0.4", linewidth=0.6)
    axes.set_yticks(range(len(named)), [name for name, _ in named], fontsize="small")
    axes.invert_yaxis()
    axes.set_xlabel("value of the n-gram")


def _gate_panel(axes: Axes, tokens: Sequence[str], gates: Tensor) -> None:
    places = range(len(tokens))
    axes.plot(places, gates.mean(dim=1), color="black", marker=".", linewidth=1, label="mean")
    if gates.size(1) > 1:
        low, high = (gates.quantile(q, dim=1) for q in (0.25, 0.75))
        axes.fill_between(places, low, high, color="0.8", label="middle half of the channels")
        axes.legend(fontsize="x-small")
    axes.set_ylim(-0.02, 1.02)
    _name_tokens(axes, tokens)
    axes.set_ylabel("gate")


def _name_tokens(axes: Axes, tokens: Sequence[str]) -> None:
    axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize="small")
    axes.set_xlim(-0.7, len(tokens) - 0.3)
