"""Stages as a drawing: time goes to the right, nothing overlaps, and the same graph looks the same."""

from hypothesis import given
from hypothesis import strategies as st

from grus.dashboard.views.workflow_dag_layout import HEIGHT, WIDTH, StageNode, drawing, shortened


def stages(**after: str) -> list[StageNode]:
    return [StageNode(name, name, tuple(words.split())) for name, words in after.items()]


@st.composite
def graphs(draw: st.DrawFn) -> list[StageNode]:
    count = draw(st.integers(1, 14))
    found = [
        StageNode(
            f"s{at}", f"s{at}", tuple(f"s{one}" for one in draw(st.sets(st.integers(0, at - 1), max_size=4)))
        )
        if at
        else StageNode("s0", "s0")
        for at in range(count)
    ]
    return draw(st.permutations(found))


def test_a_chain_stands_in_one_row_from_left_to_right() -> None:
    found = drawing(stages(prepare="", train="prepare", export="train"))
    assert [box.stage.name for box in sorted(found.boxes, key=lambda box: box.x)] == [
        "prepare",
        "train",
        "export",
    ]
    assert len({box.y for box in found.boxes}) == 1
    assert [(line.before, line.after) for line in found.lines] == [("prepare", "train"), ("train", "export")]


def test_what_a_fan_joins_stands_in_the_middle() -> None:
    found = {box.stage.id: box for box in drawing(stages(a="", b="a", c="a", d="a", end="b c d")).boxes}
    assert found["a"].y == found["c"].y == found["end"].y
    assert found["b"].y < found["c"].y < found["d"].y


@given(graphs())
def test_every_stage_stands_right_of_what_it_waits_for_and_no_two_overlap(found: list[StageNode]) -> None:
    drawn = drawing(found)
    place = {box.stage.id: box for box in drawn.boxes}
    assert set(place) == {stage.id for stage in found}
    for line in drawn.lines:
        assert place[line.before].x + WIDTH < place[line.after].x
    assert len(drawn.lines) == sum(len(stage.after) for stage in found)
    corners = {(box.x, box.y) for box in drawn.boxes}
    assert len(corners) == len(found)
    for box in drawn.boxes:
        assert 0 <= box.x <= drawn.width - WIDTH
        assert 0 <= box.y <= drawn.height - HEIGHT
        below = [one for one in drawn.boxes if one.x == box.x and one.y > box.y]
        assert all(one.y >= box.y + HEIGHT for one in below)


def test_a_circle_and_an_unknown_stage_are_drawn_as_far_as_they_go() -> None:
    found = drawing(stages(a="b", b="a", c="elsewhere"))
    assert len(found.boxes) == 3
    assert {(line.before, line.after) for line in found.lines} == {("a", "b"), ("b", "a")}


def test_nothing_is_an_empty_drawing() -> None:
    assert drawing([]).boxes == ()


def test_long_names_are_cut() -> None:
    assert shortened("x" * 23) == "x" * 21 + "…"
    assert shortened("x" * 22) == "x" * 22
