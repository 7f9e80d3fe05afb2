from __future__ import annotations

from pathlib import Path

import pytest

from reward_serve.keys import read_key


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("key", " secret\n"),
        (".env", "KEY=secret"),
        ("judge.env", "# mine\nexport KEY='secret'  # not theirs"),
        (".env.local", 'OTHER=1\nKEY="secret"\n'),
    ],
)
def test_a_file_is_the_key_or_sets_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_key(str(tmp_path / name), "KEY") == "secret"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (".env", "OTHER=secret", "does not set KEY"),
        (".env", "KEY=", "does not set KEY"),
        ("key", "", "must contain only the key"),
        ("variables", "KEY=secret\nOTHER=1", "must contain only the key"),
    ],
)
def test_a_file_without_a_key_is_refused_and_not_shown(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said) as refusal:
        read_key(str(tmp_path / name), "KEY")
    assert "secret" not in str(refusal.value)


def test_a_value_is_taken_literally(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=a${HOME}b", encoding="utf-8")
    assert read_key(str(tmp_path / ".env"), "KEY") == "a${HOME}b"
