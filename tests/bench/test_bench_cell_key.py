from headcount.bench.cell_key import measure


def test_changes_have_their_law_and_everything_is_timed():
    found = {one.what: one for one in measure(persons=20_000)}
    assert found["one table"].note == "81,000 cells of 20,000 people"
    assert "at 5 levels" in found["P1 to P4 of towns"].note
    for count in (1, 2, 3):
        assert found[f"p-value, counts of {count}"].value > 1e-6
