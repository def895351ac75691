"""Molecules in shards against the same molecules in memory; damaged or different folders."""

import errno
import gzip
import math
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch

from pyg_kernels.chem import MolFeaturizer, OGBFeaturizer
from pyg_kernels.datasets import (
    InvalidMolecules,
    MoleculeCSV,
    MoleculeShards,
    scaffold_split,
    shard_folder,
    sharding,
)
from tests.benchmarks.interruption import interrupt_once
from tests.chem.nci import readable_nci_smiles
from tests.datasets.conftest import present
from tests.datasets.test_molecules import assert_same_graphs

# Odd ones among ordinary ones: single atoms, salts, a wildcard, hydrogens, isotopes, long chains.
SMILES = [
    *("C", "[Na+].[Cl-]", "*", "[H][H]", "[2H]O[2H]", "[13CH4]", "C" * 255, "C" * 256 + "O"),
    *("c1ccccc1", *readable_nci_smiles()[:30], "N" * 300, "[He]"),
]
M = len(SMILES)
PARTS = ("train", "valid", "test")


def written(path: Path, smiles: list[str] = SMILES) -> Path:
    """Writes a file of molecules with two targets, some values missing, and a part."""
    rows = []
    for k, text in enumerate(smiles):
        second = "" if k % 5 == 0 else repr(-0.1 * k)
        rows.append(f"m{k},{text},{k + 0.25},{second},{PARTS[k % 3]}")
    path.write_text("\n".join(["name,smiles,a,b,part", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five shards beside their source: four of 9 molecules and a last one of 5."""
    folder = tmp_path_factory.mktemp("shards")
    make(folder / "shards", written(folder / "m.csv"))
    return folder / "shards"


@pytest.fixture(scope="module")
def shards(folder: Path) -> MoleculeShards:
    return MoleculeShards(folder)


@pytest.fixture(scope="module")
def molecules(folder: Path) -> MoleculeCSV:
    return MoleculeCSV(folder.parent / "m.csv", split_column="part")


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder to damage, beside a copy of its source."""
    shutil.copy(folder.parent / "m.csv", tmp_path)
    return Path(shutil.copytree(folder, tmp_path / "shards"))


def make(folder: Path, source: Path | None = None, **changes: Any) -> MoleculeShards:
    """Makes the shards of a file, by default of the one beside the folder."""
    arguments: dict[str, Any] = {"split_column": "part", "shard_size": 9, **changes}
    return MoleculeShards.from_csv(source or folder.parent / "m.csv", folder, **arguments)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What is read


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-M, M - 1), min_size=1, max_size=12),
    st.sampled_from([list, torch.tensor, np.array, tuple]),
)
def test_batch_equals_that_of_molecules_in_memory(
    shards: MoleculeShards, molecules: MoleculeCSV, indices: list[int], kind: type
) -> None:
    assert_same_graphs(shards.batch(kind(indices)), molecules.batch(indices))


def test_one_molecule_or_several_as_a_data_set_in_memory(
    shards: MoleculeShards, molecules: MoleculeCSV
) -> None:
    alone = Batch.from_data_list([shards[index] for index in (0, 7, -1, np.int64(9))])
    assert_same_graphs(molecules.batch([0, 7, -1, 9]), alone)
    for wrong, error, said in (
        (M, IndexError, f"index {M} is out of range for {M} molecules"),
        (1.5, TypeError, "'float'"),
        (slice(3, 3), ValueError, "is empty"),
    ):
        with pytest.raises(error, match=said):
            shards[wrong]  # type: ignore[index]
    assert [data.smiles for data in shards] == SMILES
    for index in (slice(3, 20, 2), slice(7, 3, -2), slice(None, None, -1), [5, 5, -1], range(M)):
        some, others = shards[index], molecules[index]
        for name in ("smiles", "row_numbers", "split_values"):
            assert getattr(some, name) == getattr(others, name)
        assert torch.equal(some.targets.nan_to_num(7), others.targets.nan_to_num(7))
        assert_same_graphs(some.batch(range(len(some))), others.batch(range(len(others))))


def test_what_the_shards_say_of_themselves_and_columns_that_are_read_when_asked_for(
    shards: MoleculeShards, molecules: MoleculeCSV
) -> None:
    assert (len(shards), repr(shards)) == (M, f"MoleculeShards({M})")
    assert (shards.target_names, shards.skipped) == (["a", "b"], [])
    assert shards.targets.dtype == torch.float64
    shards.targets.zero_()  # this is a copy
    assert torch.equal(shards.targets.nan_to_num(7), molecules.targets.nan_to_num(7))
    assert shards.featurizer == MolFeaturizer()
    assert shards.row_numbers.tolist() == molecules.row_numbers
    assert shards.split_values == molecules.split_values
    assert (len(shards.smiles), list(shards.smiles)) == (M, SMILES)
    for index in (0, -1, slice(None), slice(30, 3, -4), slice(5, 5)):
        assert shards.smiles[index] == SMILES[index]
    with pytest.raises(IndexError):
        shards.smiles[M]
    by_scaffold = (scaffold_split(held.smiles) for held in (shards, molecules))
    assert all(map(torch.equal, *by_scaffold))


def test_what_is_held_does_not_grow_with_the_molecules(folder: Path) -> None:
    """Except for the targets and 4 bytes for each molecule."""
    shards = MoleculeShards(folder)
    shards.batch(range(M))
    assert len(list(shards.smiles)) == len(shards.row_numbers) == M
    for name in vars(shards).keys() - {"_targets", "_offsets", "folder", "_dictionary"}:
        value = getattr(shards, name)
        assert not hasattr(value, "__len__") or len(value) <= 6
    assert (shards._offsets.dtype, len(shards._offsets)) == (np.uint32, M + 1)


# What is written


def test_several_processes_write_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    make(tmp_path / "shards", folder.parent / "m.csv", num_workers=2)
    assert contents(tmp_path / "shards") == contents(folder)


def test_a_compressed_file_and_its_own_columns(tmp_path: Path) -> None:
    path = tmp_path / "m.csv.gz"
    path.write_bytes(gzip.compress(b"mol,id,y\n\nCC,x,1\n\n\nCO,z,\nC,y,-1e-60\n"))
    shards = MoleculeShards.from_csv(path, tmp_path / "new" / "s", "mol", shard_size=2)
    assert list(shards.row_numbers) == [3, 6, 7]
    assert (shards.target_names, shards.split_values) == (["y"], None)
    assert [None if math.isnan(y) else y for y in shards.targets[:, 0]] == [1, None, -1e-60]
    bare = MoleculeShards.from_csv(path, tmp_path / "bare", "mol", target_columns=())
    assert bare.targets.shape == (3, 0)
    assert bare.batch([2, 0]).y.shape == (2, 0)
    one = MoleculeShards.from_csv(path, tmp_path / "one", "mol", target_columns="y")
    assert one.target_names == ["y"]


def test_unreadable_smiles_are_all_listed_or_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", ["C(C", "CC", "C", "", "FF(F)", "x", "O"])
    with pytest.raises(InvalidMolecules) as expected:
        MoleculeCSV(path)
    with pytest.raises(InvalidMolecules, match=f"^{re.escape(str(expected.value))}$"):
        make(tmp_path / "s", shard_size=2)
    before = contents(tmp_path / "s")
    shards = make(tmp_path / "s", shard_size=2, skip_invalid=True)
    assert contents(tmp_path / "s") == before  # nothing was featurised again
    molecules = MoleculeCSV(path, split_column="part", skip_invalid=True)
    assert list(shards.smiles) == molecules.smiles == ["CC", "C", "O"]
    assert list(shards.row_numbers) == molecules.row_numbers == [3, 4, 8]
    assert list(shards.split_values or ()) == molecules.split_values
    assert shards.skipped == molecules.skipped
    assert_same_graphs(shards.batch([2, 0, 1]), molecules.batch([2, 0, 1]))  # one shard is empty


def test_a_folder_that_is_made_again(tmp_path: Path) -> None:
    """Pickled shards read the folder anew; open shards say that it was changed."""
    path, folder = written(tmp_path / "m.csv"), tmp_path / "shards"
    shards = MoleculeShards.from_csv(path, folder, target_columns=["a"])
    shards[0]  # the shard is compared with its checksums once
    stored = pickle.dumps(shards)
    assert len(stored) < 1000
    shutil.rmtree(folder)
    written(path, SMILES[::-1])
    MoleculeShards.from_csv(path, folder, target_columns=["a"])
    assert pickle.loads(stored)[0].smiles == SMILES[-1]
    with pytest.raises(ValueError, match="changed while it was in use"):
        shards[0:M]


def test_a_column_without_molecules_is_found_at_once(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", ["C"] * 6)
    with pytest.raises(InvalidMolecules, match=r"2 of 2 SMILES in the first rows of m.csv"):
        MoleculeShards.from_csv(path, tmp_path / "s", smiles_column="name", shard_size=2)
    assert len(MoleculeShards.from_csv(path, tmp_path / "s")) == 6  # nothing was in the way
    with pytest.raises(ValueError, match="no molecule that can be read"):
        MoleculeShards.from_csv(path, tmp_path / "t", smiles_column="name", skip_invalid=True)


@pytest.mark.parametrize("number", [0, 4])
def test_a_full_disk_is_named_and_what_is_finished_is_continued(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The disk is full when shard `number`, counted from 0, is written."""
    source, target, calls = folder.parent / "m.csv", tmp_path / "shards", []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 5 * number + 2:  # five arrays in each shard
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left .*finished shards are kept") as e:
            make(target, source)
    assert e.value.errno == errno.ENOSPC
    assert e.value.filename == str(target)
    with pytest.raises(ValueError, match=f"not finished: it has {9 * number} of {M} rows of m.csv"):
        MoleculeShards(target)
    encoded = []
    append = sharding._append
    monkeypatch.setattr(sharding, "_append", lambda *a: (encoded.append(a[2]), append(*a)))
    make(target, source)
    assert len(encoded) == 5 - number
    assert contents(target) == contents(folder)


@pytest.mark.parametrize("unreadable", [0, 9], ids=["molecules first", "others first"])
def test_an_interruption_between_shard_and_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreadable: int
) -> None:
    source = written(tmp_path / "m.csv", ["x"] * unreadable + SMILES)
    target, whole = tmp_path / "shards", tmp_path / "whole"
    manifest = shard_folder.ShardFolder
    with monkeypatch.context() as patch:
        interrupt_once(patch, manifest, "write", lambda held: len(held.shards) == 2)
        with pytest.raises(KeyboardInterrupt):
            make(target, source, skip_invalid=True, num_workers=0)
    assert len(np.load(target / "lengths.npy")) == manifest.read(target).rows("lengths") + 9
    for folder in (target, whole):
        make(folder, source, skip_invalid=True)
    assert contents(target) == contents(whole)


def test_a_finished_folder_is_opened_and_nothing_is_written(
    copied: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(sharding, "stream_molecule_rows", lambda *_: pytest.fail("read again"))
    renamed = (copied.parent / "m.csv").rename(copied.parent / "renamed.csv")
    assert len(make(copied, renamed)) == M
    assert contents(copied) == contents(folder)


def test_molecules_of_the_clean_energy_project_take_few_bytes(
    real_data: Path, tmp_path: Path
) -> None:
    source = present(real_data / "molecules" / "cep-processed.csv")
    path = tmp_path / "cep.csv"
    path.write_text("\n".join(source.read_text().splitlines()[:601]))
    shards = MoleculeShards.from_csv(path, tmp_path / "s", shard_size=200, num_workers=0)
    arrays = [(tmp_path / "s" / f"{name}.npy").stat().st_size for name in shard_folder.ARRAYS]
    assert (sum(arrays) - 5 * 128) / len(shards) < 195


# What is refused


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


def test_a_folder_made_otherwise(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, other, said in (
        ("smiles_column", "name", "'smiles', not 'name'"),
        ("target_columns", ["b"], r"None, not \['b'\]"),
        ("split_column", None, "'part', not None"),
        ("shard_size", 10, "9, not 10"),
        ("featurizer", OGBFeaturizer(), "'[0-9a-f]{12}', not '"),
    ):
        with pytest.raises(ValueError, match=f"m.csv with {name} {said}"):
            make(copied, **{name: other})
    with pytest.raises(ValueError, match=r"was made by another featuriser, .*OGBFeaturizer"):
        MoleculeShards(copied, OGBFeaturizer())
    monkeypatch.setattr(sharding, "rdBase", type("rdBase", (), {"rdkitVersion": "1999.01.1"}))
    with pytest.raises(ValueError, match=r"with rdkit '20.*, not '1999\.01\.1'"):
        make(copied)
    edit(copied.parent / "m.csv", "m3,", "n3,")
    with pytest.raises(ValueError, match=r"from m.csv with sha256 "):
        make(copied)


@pytest.mark.parametrize("name", shard_folder.ARRAYS)
def test_damage_is_named_when_something_is_read(copied: Path, name: str) -> None:
    array = np.load(copied / f"{name}.npy", mmap_mode="r+")
    array[-3] += 1  # an entry of the last shard
    array.flush()
    file, kind = copied / f"{name}.npy", array.dtype.str
    whole = file.read_bytes()
    del array
    for old, new in ((kind, ">" + kind[1:]), (kind, "<c8"), ("{", " "), (", 1)", ",  ")):
        if new != kind and name != "records" and old.encode() in whole:
            file.write_bytes(whole.replace(old.encode(), new.encode(), 1))
            with pytest.raises(ValueError, match=rf"{name}.npy is damaged: "):
                MoleculeShards(copied)
    file.write_bytes(whole)
    for read in (
        lambda shards: shards.smiles[0],
        lambda shards: shards.row_numbers,
        lambda shards: shards.split_values,
        lambda shards: shards.targets,
        lambda shards: shards[0],
        lambda shards: shards.batch([0]),
    ):
        with pytest.raises(ValueError, match=r"shard 4 of .* is damaged: its checksum"):
            read(MoleculeShards(copied))


def cut(size: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:size]


RECORDS, MANIFEST = "records.npy", "manifest.json"


@pytest.mark.parametrize("read", [MoleculeShards, make])
@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        *((RECORDS, cut(size), "is damaged") for size in (0, 40, 130, -8)),
        ("targets.npy", cut(-8), "is damaged"),
        ("split.npy", None, "is missing"),
        (MANIFEST, cut(1), "is damaged: it is not JSON"),
        (MANIFEST, lambda _: b"[]", "is not the manifest of molecule shards"),
        (MANIFEST, lambda _: b'{"format": "other"}', "is not the manifest .*: make the shards"),
        (MANIFEST, lambda old: old.replace(b'"train', b'"drain'), "is damaged: its checksum"),
        (MANIFEST, None, f"has (no|{RECORDS} but no)"),
    ],
)
def test_a_damaged_or_missing_file_is_named(copied: Path, name, change, said, read) -> None:
    path = copied / name
    path.write_bytes(change(path.read_bytes())) if change else path.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=said) as error:
        read(copied)
    assert name in str(error.value)


def test_an_array_from_elsewhere(copied: Path, tmp_path: Path) -> None:
    other = MoleculeShards.from_csv(written(tmp_path / "n.csv", ["C", "CC"]), tmp_path / "o")
    shutil.copy(other.folder / "records.npy", copied)
    with pytest.raises(ValueError, match=r"records.npy is damaged: it has \|u1 \(\d+,\), not"):
        MoleculeShards(copied)
    with pytest.raises(FileNotFoundError, match=r"has no manifest.json"):
        MoleculeShards(tmp_path)


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "m.csv").write_text("smiles,y\nC,1\nCC,high\n")
    for name, size, error, message in (
        ("none.csv", 1, FileNotFoundError, r"none.csv"),
        ("pipe.csv", 1, ValueError, "two passes"),
        ("m.csv", 1, ValueError, r"m.csv, line 3: the target 'y'"),
        ("m.csv", 0, ValueError, "shard_size must be a whole number .*, not 0"),
        ("m.csv", 2.5, ValueError, "shard_size must be a whole .*, not 2.5"),
    ):
        with pytest.raises(error, match=message):
            MoleculeShards.from_csv(tmp_path / name, tmp_path / "t", shard_size=size)
        assert not (tmp_path / "t").exists()


def test_the_digest_follows_the_content(shards: MoleculeShards, tmp_path: Path) -> None:
    again = make(tmp_path / "s", written(tmp_path / "other.csv"))
    assert again.digest == shards.digest
    edit(tmp_path / "other.csv", "0.25", "0.75")
    assert make(tmp_path / "t", tmp_path / "other.csv").digest != shards.digest
