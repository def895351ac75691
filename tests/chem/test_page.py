"""The page on molecules does what it says."""

from tests.pages import code_blocks, run


def test_salts_duplicates_and_far_molecules() -> None:
    (block,) = (block for block in code_blocks("molecules.rst") if "standardize_many" in block)
    names = run(block)
    assert names["changes"][0].steps == ("fragment", "charge")
    assert names["twice"][0].is_across
    assert names["positions"] == [[0, 1], [2], [3], [4]]
    assert names["is_far"].tolist() == [False, True]
