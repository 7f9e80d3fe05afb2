from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from reward_serve.config.base import ConfigError
from reward_serve.keys import digest_of, read_key, read_key_digests

ONE = "0123456789abcdef"
TWO = "fedcba9876543210/+~._-=="
BOTH = {"one": digest_of(ONE), "two": digest_of(TWO)}


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


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    return path


def fault(file: Path | None = None, variable: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_key_digests(str(file) if file else None, variable)
    assert caught.value.__cause__ is None
    assert [
        key for key in (ONE, TWO.rstrip("="), "s3cret", "kéy") if key in str(caught.value)
    ] == []
    return str(caught.value)


def test_a_service_reads_its_keys_from_a_file_and_a_variable(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_key_digests(None, None) == {}
    file.write_text(f"# trainers\n\none: {ONE}\r\n  two:{TWO}  \n", encoding="utf-8-sig")
    assert read_key_digests(str(file), None) == BOTH
    monkeypatch.setenv("THE_KEYS", f"one={ONE}, two={TWO},")
    assert read_key_digests(None, "THE_KEYS") == BOTH
    assert "the name 'one' is used twice" in fault(file, "THE_KEYS")
    file.write_text(f"one: {ONE}\n")
    monkeypatch.setenv("THE_KEYS", f"two={TWO}")
    assert read_key_digests(str(file), "THE_KEYS") == BOTH


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("# none yet\n\n", ["contains no keys", "openssl", "remove"], id="none"),
        pytest.param(f"one: {ONE}\none: {TWO}\n", ["line 2", "'one'", "twice"], id="same name"),
        pytest.param(f"one: {ONE}\ntwo: {ONE}\n", ["line 2", "'two'", "another"], id="same key"),
        pytest.param("one: s3cret\n", ["line 1", "6 characters", "16", "openssl"], id="short"),
        pytest.param(f'one: "{ONE}"\n', ["line 1", "without quotes"], id="quoted"),
        pytest.param(f"one: {ONE} # hers\n", ["line 1", "letters, digits"], id="comment behind"),
        pytest.param(f"{ONE}\n", ["line 1", "must read name: key"], id="no name"),
        pytest.param(f"KEY={ONE}\n", ["line 1", "must read name: key"], id="a .env"),
        pytest.param(f"a b: {ONE}\n", ["line 1", "the name must be"], id="name with a space"),
        pytest.param(f"{TWO}: {ONE}\n", ["line 1", "the name must be"], id="a key for a name"),
        pytest.param(f"{ONE}:\n", ["line 1", "the key must be"], id="a key, a colon, no key"),
        pytest.param("one: kéykéykéykéykéykéy\n", ["line 1", "letters, digits"], id="accents"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_without_a_key(
    file: Path, text: str, parts: list[str]
) -> None:
    file.write_text(text, encoding="utf-8")
    message = fault(file)
    assert message.startswith(f"server.api_keys_file: {str(file)!r}")
    assert [part for part in parts if part not in message] == []


def test_keys_that_cannot_be_read_are_reported_with_where_they_are_looked_for(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("THE_KEYS", raising=False)
    assert "THE_KEYS: is not set where Serve builds" in fault(variable="THE_KEYS")
    monkeypatch.setenv("THE_KEYS", f"one={ONE},{ONE}")
    assert "THE_KEYS, entry 2" in fault(variable="THE_KEYS")
    missing = fault(file.parent / "none")
    assert "No such file" in missing
    assert "a node of the cluster" in missing
    file.write_bytes(b"one: \xff\xfe" + ONE.encode())
    assert "is not UTF-8 text" in fault(file)


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_is_warned_of(
    file: Path, mode: int, warns: bool, serve_log: pytest.LogCaptureFixture
) -> None:
    file.write_text(f"one: {ONE}\n")
    file.chmod(mode)
    with serve_log.at_level(logging.WARNING, logger="ray.serve"):
        read_key_digests(str(file), None)
    assert ("chmod 600" in serve_log.text) is warns
    assert ONE not in serve_log.text
