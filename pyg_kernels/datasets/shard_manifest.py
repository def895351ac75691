"""What a folder of shards was made from, and what it holds."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pyg_kernels.chem.codes import InvalidRow
from pyg_kernels.datasets.public_file import write_whole
from pyg_kernels.datasets.shard_file import file_sha256, read_header

FORMAT = "pyg_kernels molecule shards"
VERSION = 1
FILE = "manifest.json"
ADVICE = "give another folder, or delete this one"


@dataclass(frozen=True)
class Origin:
    """What decides the content of every shard of a folder.

    Attributes:
        source: the name of the CSV file.
        size: its length in bytes.
        sha256: of the file.
        columns: the names in its header.
        rows: the number of its rows.
        smiles_column: the column of SMILES.
        target_columns: the columns of targets.
        asked: these if they were named, None if all columns of numbers were taken.
        split_column: the column of part names, if any.
        shard_size: rows a shard.
        featurizer: the fingerprint of the featuriser.
        features: its description.
        rdkit: the version of RDKit that read the SMILES.
    """

    source: str
    size: int
    sha256: str
    columns: list[str]
    rows: int
    smiles_column: str
    target_columns: list[str]
    asked: list[str] | None
    split_column: str | None
    shard_size: int
    featurizer: str
    features: dict[str, Any]
    rdkit: str

    @property
    def identity(self) -> str:
        """Sixteen digits that differ where the shards would; the file's name does not matter."""
        return _digest({**asdict(self), "source": None, "asked": None, "version": VERSION})[:16]

    @property
    def num_shards(self) -> int:
        """How many shards there are when all is done."""
        return -(-self.rows // self.shard_size)


class ShardEntry(NamedTuple):
    """A finished shard.

    Attributes:
        molecules: how many it has.
        atoms: how many these have.
        bonds: how many these have, each counted once.
        bytes: the size of its file.
        sha256: of its file.
    """

    molecules: int
    atoms: int
    bonds: int
    bytes: int
    sha256: str


@dataclass
class Manifest:
    """The content of ``manifest.json``.

    Attributes:
        origin: what the shards were made from.
        atom_kinds: the codes of each kind of atom.
        bond_kinds: the codes of each kind of bond.
        split_names: what the split column says, in the order of first appearance.
        shards: the finished shards.
        skipped: the SMILES in them that cannot be read.
    """

    origin: Origin
    atom_kinds: list[list[int]] = field(default_factory=list)
    bond_kinds: list[list[int]] = field(default_factory=list)
    split_names: list[str] = field(default_factory=list)
    shards: list[ShardEntry] = field(default_factory=list)
    skipped: list[InvalidRow] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether all shards are there."""
        return len(self.shards) == self.origin.num_shards

    @property
    def digest(self) -> str:
        """Sixteen digits: equal only if molecules, targets, features and their order are."""
        return _digest([self.origin.identity, self._content()])[:16]

    def write(self, folder: Path) -> None:
        """Writes the file whole or not at all."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "complete": self.is_complete,
            "origin": asdict(self.origin),
            **self._content(),
        }
        text = json.dumps({**content, "sha256": _digest(content)}, indent=1) + "\n"
        write_whole(folder / FILE, lambda partial: partial.write_text(text, encoding="utf-8"))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder.

        Raises:
            FileNotFoundError: if there is none.
            ValueError: if it is no such file, of another version, or damaged.
        """
        path = folder / FILE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is damaged: it is not JSON in UTF-8") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"{path} is not the manifest of molecule shards")
        if content.get("version") != VERSION:
            raise ValueError(
                f"{path} has the format version {content.get('version')}; this version of "
                f"pyg_kernels reads {VERSION}: make the shards anew"
            )
        if content.pop("sha256", None) != _digest(content):
            raise ValueError(f"{path} is damaged: its checksum does not fit what it says")
        return cls(
            origin=Origin(**content["origin"]),
            atom_kinds=content["atom_kinds"],
            bond_kinds=content["bond_kinds"],
            split_names=content["split_names"],
            shards=[ShardEntry(**entry) for entry in content["shards"]],
            skipped=[InvalidRow(*row) for row in content["skipped"]],
        )

    def header(self, number: int) -> dict[str, Any]:
        """What the header of a shard says of where it belongs."""
        return {
            "version": VERSION,
            "folder": self.origin.identity,
            "featurizer": self.origin.featurizer,
            "number": number,
        }

    def check(self, folder: Path, number: int) -> None:
        """Looks at the size and the header of a shard.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is missing, cut off, or another than the one that was written.
        """
        path, entry = folder / shard_name(number), self.shards[number]
        if not path.is_file():
            raise ValueError(f"{path} is missing; {folder} should have {self.origin.num_shards}")
        found, expected = read_header(path), self.header(number)
        for key, meaning in (
            ("version", "has the format version {0!r}, not {1!r}"),
            ("featurizer", "was made by another featuriser ({0!r}, its folder by {1!r})"),
            ("folder", "belongs to another folder: it was made from another file or otherwise"),
            ("number", "is shard {0!r} of this folder, in the place of shard {1!r}"),
        ):
            if found.get(key) != expected[key]:
                raise ValueError(f"{path} {meaning.format(found.get(key), expected[key])}")
        size = path.stat().st_size
        if size != entry.bytes:
            raise ValueError(f"{path} is damaged: it has {size:,} bytes, not {entry.bytes:,}")

    def verify(self, folder: Path, number: int) -> None:
        """Reads all of a shard.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is not the one that was written.
        """
        self.check(folder, number)
        if file_sha256(folder / shard_name(number)) != self.shards[number].sha256:
            path = folder / shard_name(number)
            raise ValueError(f"{path} is damaged: its checksum is not that in {FILE}")

    def _content(self) -> dict[str, Any]:
        return {
            "atom_kinds": self.atom_kinds,
            "bond_kinds": self.bond_kinds,
            "split_names": self.split_names,
            "shards": [entry._asdict() for entry in self.shards],
            "skipped": [list(row) for row in self.skipped],
        }


def shard_name(number: int) -> str:
    """The name of the file of a shard, counted from 0."""
    return f"shard-{number:05d}.mol"


def check_same_source(
    old: Origin, source: str, columns: list[str], size: int, sha256: str, folder: Path
) -> None:
    """Whether a file is the one that the folder was made from, under whatever name.

    Raises:
        ValueError: naming what has changed.
    """
    if columns != old.columns:
        raise ValueError(
            f"the columns of {source} have changed since {folder} was made: they were "
            f"{', '.join(map(repr, old.columns))} and are {', '.join(map(repr, columns))}; {ADVICE}"
        )
    if (size, sha256) != (old.size, old.sha256):
        raise ValueError(
            f"the content of {source} has changed since {folder} was made: it had {old.size:,} "
            f"bytes with SHA-256 {old.sha256[:12]}, now {size:,} with {sha256[:12]}; {ADVICE}"
        )


def check_same_settings(old: Origin, new: Origin, folder: Path) -> None:
    """Whether shards made in the new way would be those in the folder.

    Raises:
        ValueError: naming the first difference.
    """
    for name, text in (
        ("smiles_column", "smiles_column {!r}"),
        ("target_columns", "target_columns {!r}"),
        ("split_column", "split_column {!r}"),
        ("shard_size", "shard_size {!r}"),
        ("featurizer", "the featuriser {}"),
        ("rdkit", "RDKit {}"),
    ):
        before, now = getattr(old, name), getattr(new, name)
        if before != now:
            raise ValueError(
                f"{folder} was made with {text.format(before)}, not {text.format(now)}; {ADVICE}"
            )


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
