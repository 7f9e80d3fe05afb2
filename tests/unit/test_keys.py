import logging
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reward_serve.config.base import ConfigError
from reward_serve.keys import digest_of, read_key, read_key_digests, use_ray_token
from tests.rows import rows

ONE = "0123456789abcdef"
TWO = "fedcba9876543210/+~._-=="
BOTH = {"one": digest_of(ONE), "two": digest_of(TWO)}


@pytest.mark.parametrize(("name", "text", "key"), rows(__file__, "keys"))
def test_a_file_is_the_key_or_sets_it(tmp_path: Path, name: str, text: str, key: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_key(str(tmp_path / name), "KEY") == key


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (".env", b"OTHER=secret", "does not set KEY"),
        (".env", b"KEY=", "does not set KEY"),
        ("key", b"", "must contain only the key"),
        ("variable", b"KEY=secret\n", "use a name *.env"),
        ("variable", b"export KEY='secret'\n", "use a name *.env"),
        ("key", b"\xff\xfesecret", "is not UTF-8 text"),
        ("none", None, "No such file or directory; name a readable file"),
    ],
)
def test_a_file_without_a_key_is_refused_and_not_shown(
    tmp_path: Path, name: str, text: bytes | None, message: str
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text)
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        read_key(str(tmp_path / name), "KEY")
    assert str(tmp_path / name) in str(refusal.value)
    assert "secret" not in str(refusal.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    return path


def fault(file: Path | None = None, variable: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_key_digests(str(file) if file else None, variable)
    assert caught.value.__cause__ is None
    assert not [k for k in (ONE, TWO.rstrip("="), "s3cret", "kéy") if k in str(caught.value)]
    return str(caught.value)


def test_keys_are_in_a_file_and_a_variable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        pytest.param(f"a b: {ONE}\n", ["line 1", "the name must be"], id="name with a space"),
        pytest.param(f"{ONE}:\n", ["line 1", "the key must be"], id="a key, a colon, no key"),
        pytest.param("one: kéykéykéykéykéykéy\n", ["line 1", "letters, digits"], id="accents"),
    ],
)
def test_a_useless_file_is_reported_without_a_key(file: Path, text: str, parts: list[str]) -> None:
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


def test_the_token_of_ray_is_made_once_for_its_user_alone_and_only_where_ray_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reread: list[str] = []
    raylet = SimpleNamespace(Config=SimpleNamespace(initialize=reread.append))
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(_raylet=raylet))
    monkeypatch.setattr(os, "environ", environment := {"HOME": str(tmp_path)})
    token = tmp_path / ".ray" / "reward_serve_token"
    use_ray_token()
    assert (list(environment), token.parent.exists()) == (["HOME"], False)
    for _ in range(2):
        environment.pop("RAY_AUTH_MODE", None)
        use_ray_token(starts=True)
        content = token.read_text()
        assert (len(content), token.stat().st_mode & 0o777) == (64, 0o600)
    environment.pop("RAY_AUTH_MODE")
    use_ray_token()
    assert environment["RAY_AUTH_MODE"] == "token"
    assert environment["RAY_AUTH_TOKEN_PATH"] == str(token)
    assert (token.read_text(), len(reread)) == (content, 3)
    assert list(token.parent.iterdir()) == [token]
    environment |= {"RAY_AUTH_MODE": "disabled", "HOME": str(tmp_path / "none")}
    use_ray_token(starts=True)
    assert (environment["RAY_AUTH_MODE"], (tmp_path / "none").exists()) == ("disabled", False)
