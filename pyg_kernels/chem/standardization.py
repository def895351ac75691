"""One way to draw each molecule: cleaned up, without salts and solvents, neutral."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

from rdkit import Chem, rdBase
from rdkit.Chem.MolStandardize import rdMolStandardize

from pyg_kernels.chem.codes import InvalidSmiles
from pyg_kernels.chem.encoding import checked_strings, parse, sanitized
from pyg_kernels.chem.processes import map_chunks

_ROUNDS = 5  # most rounds of all steps


class StandardizedRow(NamedTuple):
    """A molecule that standardization has changed.

    Attributes:
        row: its position in the sequence, from 0.
        before: the SMILES as it was given.
        after: the canonical SMILES of the standardized molecule.
        steps: which steps changed it, of ``'cleanup'``, ``'fragment'`` and ``'charge'``.
    """

    row: int
    before: str
    after: str
    steps: tuple[str, ...]


@overload
def standardize(molecule: str) -> str: ...


@overload
def standardize(molecule: Chem.Mol) -> Chem.Mol: ...


def standardize(molecule: str | Chem.Mol) -> str | Chem.Mol:
    """Cleans up a molecule, keeps only its largest fragment, and neutralizes it where possible.

    The steps are those of RDKit's ``rdMolStandardize``: ``Cleanup`` (explicit hydrogens removed,
    metals disconnected, functional groups drawn in one way, acids ionized from the strongest on),
    then ``LargestFragmentChooser``, then ``Uncharger``. They are repeated until they change nothing
    more (at most five times), so that a standardized molecule stays as it is. Tautomers and
    stereochemistry stay as they are.

    Args:
        molecule: a SMILES string, or an RDKit molecule, which is left as it is.

    Returns:
        A canonical SMILES string for a string, a molecule for a molecule.

    Raises:
        InvalidSmiles: if RDKit cannot read the molecule, or cannot standardize it.
        TypeError: if it is neither a string nor an RDKit molecule.

    Example:
        >>> from pyg_kernels.chem import standardize
        >>> standardize("CC(=O)[O-].[Na+]")
        'CC(=O)O'
    """
    mol = sanitized(molecule)
    with rdBase.BlockLogs():
        last, _ = _standardized(mol)
    return Chem.MolToSmiles(last) if isinstance(molecule, str) else last


def standardize_many(
    smiles: Sequence[str], num_workers: int | None = None
) -> tuple[list[str], list[StandardizedRow]]:
    """:func:`standardize` of many molecules, and what it has changed.

    Args:
        smiles: M SMILES strings.
        num_workers: the number of processes; None: one per core if there are many molecules.

    Returns:
        M SMILES strings, and the molecules that were changed, in their order. A string is returned
        as it was given if its molecule stays the same, or if RDKit cannot standardize or read it.
        Strings that cannot be read are reported by whatever reads the molecules next.

    Raises:
        TypeError: if an item is not a string, or ``smiles`` is a single one.

    Example:
        >>> from pyg_kernels.chem import standardize_many
        >>> smiles, changed = standardize_many(["CCO", "CC(=O)[O-].[Na+]"])
        >>> smiles, len(changed)
        (['CCO', 'CC(=O)O'], 1)
    """
    found = checked_strings(smiles)
    chunks = map_chunks(_standardize_chunk, found.copy(), num_workers)
    changes = [row for rows in chunks for row in rows]
    for change in changes:
        found[change.row] = change.after
    return found, changes


def _standardize_chunk(chunk: tuple[int, Sequence[str]]) -> list[StandardizedRow]:
    first, smiles = chunk
    rows = []
    with rdBase.BlockLogs():
        for position, text in enumerate(smiles, start=first):
            try:
                last, steps = _standardized(parse(text))
            except InvalidSmiles:
                continue
            if steps:
                rows.append(StandardizedRow(position, text, Chem.MolToSmiles(last), steps))
    return rows


def _standardized(mol: Chem.Mol) -> tuple[Chem.Mol, tuple[str, ...]]:
    """The standardized molecule and the steps that have changed it."""
    steps = {
        "cleanup": rdMolStandardize.Cleanup,
        "fragment": rdMolStandardize.LargestFragmentChooser().choose,
        "charge": _neutralized,
    }
    changed: dict[str, None] = {}
    before = given = Chem.MolToSmiles(mol)
    for _ in range(_ROUNDS):
        first = before
        for name, step in steps.items():
            try:
                mol = step(mol)
            except (RuntimeError, ValueError) as error:
                reason = f"RDKit cannot standardize it ({name}): {error}"
                raise InvalidSmiles(given, reason) from error
            after = Chem.MolToSmiles(mol)
            if after != before:
                changed[name] = None
            before = after
        if before == first:
            break
    return mol, tuple(name for name in steps if name in changed)


def _neutralized(mol: Chem.Mol) -> Chem.Mol:
    """Neutralizes a molecule unless that gives an atom an impossible valence, as in PF6-."""
    found = rdMolStandardize.Uncharger().uncharge(mol)
    return mol if Chem.DetectChemistryProblems(found) else found
