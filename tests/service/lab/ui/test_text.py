import pytest

from reward_serve_lab.attacks import crossed
from reward_serve_lab.ui.text import (
    MAX_SHOWN,
    Mark,
    Piece,
    hidden_names,
    is_hidden,
    legible,
    one_line,
    pieces,
    transportable,
)
from tests.rows import rows


def test_plain_text_is_one_piece_as_it_is_and_a_pile_of_marks_is_cut() -> None:
    text = "So 3 < 4 & <b>18</b>\n\t{{ braces }} **bold** 答案 é 😀"
    assert pieces(text) == [Piece(text)]
    (pile,) = pieces("a" + "\u0336" * 1000)  # which would cover the lines around it
    assert len(pile.text) < 10


@pytest.mark.parametrize(("character", "name"), rows(__file__, "unseen"))
def test_what_cannot_be_seen_is_named(character: str, name: str) -> None:
    before, piece, after = pieces(f"a{character}b")
    assert (before.text, after.text) == ("a", "b")
    assert piece == Piece(f"U+{ord(character):04X}", "unseen", name)


def test_no_attack_leaves_a_hidden_character_in_what_is_shown() -> None:
    for attack in crossed(per_text=1):
        for piece in pieces(attack.response) + one_line(attack.response):
            assert not any(map(is_hidden, piece.text)), attack.family
            piece.text.encode()


def test_marks_split_the_text_where_they_begin_and_end() -> None:
    assert pieces("the answer is 18.", [Mark(14, 16, "match"), Mark(4, 16, "cut")]) == [
        Piece("the "),
        Piece("answer is ", "cut"),
        Piece("18", "cut match"),
        Piece("."),
    ]


def test_of_a_long_text_the_ends_and_what_is_marked_are_shown() -> None:
    text = "a" * 100_000 + "18" + "b" * 100_000
    kept = pieces(text, [Mark(100_000, 100_002, "match")])
    assert Piece("18", "match") in kept
    left_out = [piece.text for piece in kept if piece.kind == "left-out"]
    assert len(left_out) == 2 and "characters not shown" in left_out[0]
    assert sum(len(piece.text) for piece in kept) < MAX_SHOWN + 3_000


def test_hidden_names_are_few_and_distinct() -> None:
    assert hidden_names("a\u200b\u200bb\u202e") == [
        "U+200B ZERO WIDTH SPACE",
        "U+202E RIGHT-TO-LEFT OVERRIDE",
    ]
    assert legible("a\u202eb") == "aU+202Eb"
    assert transportable("a\ud800") == "a?"
