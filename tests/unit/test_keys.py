from __future__ import annotations

import os
import re
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
        ("key", "\ufeffsecret\r\n"),
        (".env", "\ufeffKEY=secret\r\n"),
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
        ("variable", "KEY=secret\n", "use a name *.env"),
        ("variable", "export KEY='secret'\n", "use a name *.env"),
    ],
)
def test_a_file_without_a_key_is_refused_and_not_shown(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(said)) as refusal:
        read_key(str(tmp_path / name), "KEY")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(("name", "said"), [("", "Is a directory"), ("none", "No such file")])
def test_a_file_that_cannot_be_read_is_named_with_the_remedy(
    tmp_path: Path, name: str, said: str
) -> None:
    with pytest.raises(ValueError, match=rf"{tmp_path / name}: {said}.*; name a readable file"):
        read_key(str(tmp_path / name), "KEY")


def test_a_value_is_taken_literally(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=a${HOME}b", encoding="utf-8")
    assert read_key(str(tmp_path / ".env"), "KEY") == "a${HOME}b"


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["key", ".env"])
def test_a_pipe_or_a_device_is_refused_unread(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    (tmp_path / f"{name}.env").symlink_to("/dev/zero")
    reading, writing = os.pipe()  # what a shell's process substitution names
    try:
        for file in (tmp_path / name, tmp_path / f"{name}.env", f"/dev/fd/{reading}"):
            with pytest.raises(ValueError, match=r"is a pipe or a device.* regular file"):
                read_key(str(file), "KEY")
    finally:
        os.close(reading)
        os.close(writing)


def test_a_mounted_secret_is_read_through_its_links(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026" / "key").write_text("secret")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "key").symlink_to("..data/key")
    assert read_key(str(tmp_path / "key"), "KEY") == "secret"


@pytest.mark.parametrize("key", ["secret==", "a-b_c.d~e+f/g="])
def test_a_key_may_end_in_padding(tmp_path: Path, key: str) -> None:
    (tmp_path / "key").write_text(key)
    assert read_key(str(tmp_path / "key"), "KEY") == key
