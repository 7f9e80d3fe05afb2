from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from reward_serve.config.base import ConfigError
from reward_serve.http.auth import (
    KeyLimit,
    digest_of,
    name_of,
    read_key_digests,
)

ONE = "0123456789abcdef"
TWO = "fedcba9876543210/+~._-=="


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    return path


def fault(file: Path | None = None, variable: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        read_key_digests(str(file) if file else None, variable)
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_a_key_is_known_by_its_name() -> None:
    digests = {"one": digest_of(ONE), "two": digest_of(TWO)}
    assert (name_of(digests, ONE), name_of(digests, TWO)) == ("one", "two")


@pytest.mark.parametrize(
    "key",
    [
        "",
        ONE[:-1],
        f"{ONE}0",
        ONE.upper(),
        f" {ONE}",
        digest_of(ONE),
        "é" * 16,
        "\udcff",
        "x" * 9999,
    ],
    ids=range(9),
)
def test_another_key_is_nobodys(key: str) -> None:
    assert name_of({"one": digest_of(ONE)}, key) is None


def test_every_key_is_compared_in_constant_time_at_equal_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def spy(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", spy)
    digests = {"one": digest_of(ONE), "two": digest_of(TWO)}
    assert name_of(digests, ONE) == "one"
    assert name_of(digests, "x") is None
    assert compared == [(64, 64)] * 4


def test_no_source_is_no_keys() -> None:
    assert read_key_digests(None, None) == {}


def test_a_file_names_its_keys(file: Path) -> None:
    file.write_text(f"# trainers\n\none: {ONE}\r\n  two:{TWO}  \n")
    assert read_key_digests(str(file), None) == {"one": digest_of(ONE), "two": digest_of(TWO)}


def test_a_byte_order_mark_is_no_part_of_a_name(file: Path) -> None:
    file.write_text(f"one: {ONE}\n", encoding="utf-8-sig")
    assert set(read_key_digests(str(file), None)) == {"one"}


@pytest.mark.timeout(10)
def test_a_pipe_or_a_device_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        message = fault(file)
        assert message.startswith(f"server.api_keys_file: {str(file)!r}: is a pipe or a device")
        assert "regular file" in message


def test_a_variable_names_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEYS", f"one={ONE}, two={TWO},")
    assert read_key_digests(None, "THE_KEYS") == {"one": digest_of(ONE), "two": digest_of(TWO)}


def test_both_sources_are_taken_together(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f"one: {ONE}\n")
    monkeypatch.setenv("THE_KEYS", f"two={TWO}")
    assert set(read_key_digests(str(file), "THE_KEYS")) == {"one", "two"}
    monkeypatch.setenv("THE_KEYS", f"one={TWO}")
    assert "the name 'one' is used twice" in fault(file, "THE_KEYS")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param("", ["contains no keys", "openssl rand", "remove the field"], id="empty"),
        pytest.param("# none yet\n\n", ["contains no keys"], id="comments alone"),
        pytest.param(f"one: {ONE}\none: {TWO}\n", ["line 2", "'one'", "twice"], id="same name"),
        pytest.param(f"one: {ONE}\ntwo: {ONE}\n", ["line 2", "'two'", "another"], id="same key"),
        pytest.param("one: s3cret\n", ["line 1", "6 characters", "16", "openssl"], id="short"),
        pytest.param(f'one: "{ONE}"\n', ["line 1", "without quotes"], id="quoted"),
        pytest.param(f"one: {ONE} # hers\n", ["line 1", "letters, digits"], id="comment behind"),
        pytest.param(f"{ONE}\n", ["line 1", "must read name: key"], id="no name"),
        pytest.param(f"\n: {ONE}\n", ["line 2", "the name must be"], id="empty name"),
        pytest.param(f"a b: {ONE}\n", ["line 1", "the name must be"], id="name with a space"),
        pytest.param(f"{TWO}: {ONE}\n", ["line 1", "the name must be"], id="a key for a name"),
        pytest.param(f"{ONE}:\n", ["line 1", "the key must be"], id="a key, a colon, no key"),
        pytest.param(f"KEY={ONE}\n", ["line 1", "must read name: key", ".env file"], id="a .env"),
        pytest.param(f"export KEY='{ONE}:x'\n", ["line 1", ".env file"], id="an export"),
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
    assert [key for key in (ONE, TWO, "s3cret", "kéy") if key in message] == []


def test_a_variable_that_cannot_be_used_is_reported_without_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("THE_KEYS", raising=False)
    assert "THE_KEYS: is not set where Serve builds" in fault(variable="THE_KEYS")
    for value, part in [
        ("", "contains no keys"),
        (TWO, "entry 1"),
        (f"one={ONE},{ONE}", "entry 2"),
    ]:
        monkeypatch.setenv("THE_KEYS", value)
        message = fault(variable="THE_KEYS")
        assert part in message
        assert ONE not in message
        assert TWO.rstrip("=") not in message


def test_a_missing_file_is_reported_with_where_it_is_looked_for(tmp_path: Path) -> None:
    message = fault(tmp_path / "none")
    assert "No such file" in message
    assert "a node of the cluster" in message
    assert "Is a directory" in fault(tmp_path)


def test_a_file_that_is_no_text_is_reported(file: Path) -> None:
    file.write_bytes(b"one: \xff\xfe" + ONE.encode())
    assert "is not UTF-8 text" in fault(file)


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_is_warned_of(
    file: Path, mode: int, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(f"one: {ONE}\n")
    file.chmod(mode)
    with caplog.at_level(logging.WARNING, logger="ray.serve"):
        logging.getLogger("ray.serve").addHandler(caplog.handler)
        read_key_digests(str(file), None)
        logging.getLogger("ray.serve").removeHandler(caplog.handler)
    assert ("chmod 600" in caplog.text) is warns
    assert ONE not in caplog.text


def test_each_key_has_its_own_items_in_flight() -> None:
    limit = KeyLimit(3)
    with limit.held("one", 2), limit.held("two", 3), limit.held("one", 1):
        with pytest.raises(
            HTTPException, match=r"'one': 1 items in addition to 3 .*: 3; retry"
        ) as e:
            limit.held("one", 1).__enter__()
        assert e.value.status_code == 429
    with limit.held("one", 3):
        pass


def test_items_are_given_back_when_the_work_fails() -> None:
    limit = KeyLimit(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), limit.held("one", 1):
            raise ZeroDivisionError


def test_a_batch_beyond_the_limit_is_refused_with_the_advice_to_split_it() -> None:
    with pytest.raises(HTTPException, match="split the batch") as caught:
        KeyLimit(3).held("one", 4).__enter__()
    assert caught.value.status_code == 413


def test_without_a_limit_any_number_may_be_in_flight() -> None:
    limit = KeyLimit(None)
    with limit.held("one", 10**9), limit.held("one", 10**9) as held:
        assert held is None
