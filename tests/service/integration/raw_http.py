"""Malformed HTTP, as bytes: by name, what is sent on one connection and how it is sent.

A case's parts are sent one after another, with a pause where a part is a number of seconds;
``CLOSE`` ends what the client sends, ``DROP`` the connection.
"""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Final

Part = bytes | float | None

CLOSE: Final = None
DROP: Final = -1.0

GOOD = b'{"response": "#### 18", "reference": "18"}'
_POST = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_BOMB = b'{"response": "' + b"0" * 20_000_000 + b'", "reference": "18"}'


def post(*headers: bytes, body: bytes = GOOD, length: bytes | None = b"") -> bytes:
    """A request to be scored; the body's own length, unless another is given, or none."""
    announced = str(len(body)).encode() if length == b"" else length
    lines = [*headers, *([] if announced is None else [b"Content-Length: " + announced])]
    return _POST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def get(target: bytes, *headers: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    """A request without a body."""
    lines = [b"GET " + target + b" " + version, b"Host: x", *headers]
    return b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def chunked(*chunks: bytes, headers: bytes = b"Transfer-Encoding: chunked") -> bytes:
    """A request whose body is these bytes, as they are."""
    return _POST + headers + b"\r\n\r\n" + b"".join(chunks)


_WHOLE = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
_SMUGGLED = get(b"/v1/models")
_UPGRADE = (
    b"Upgrade: websocket", b"Connection: Upgrade",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13",
)  # fmt: skip
READ_BY_SERVE = [
    b"X-Request-Id", b"X-Session-Id", b"serve_multiplexed_model_id", b"X-Request-Timeout-Seconds",
    b"X-Request-Disconnect-Disabled", b"traceparent",
]  # fmt: skip

CASES: dict[str, list[Part]] = {
    # No request at all.
    "nothing": [CLOSE],
    "one byte": [b"G", CLOSE],
    "garbage": [bytes(range(256)) * 40],
    "garbage with line ends": [b"\x00\xff\r\n\x80\r\n\r\n" * 50],
    "a TLS hello": [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500],
    "empty lines": [b"\r\n" * 5000, CLOSE],
    "half a request line": [b"POST /v1/sc", CLOSE],
    "no line end": [b"A" * 100_000, CLOSE],
    "bare line feeds": [get(b"/health").replace(b"\r\n", b"\n")],
    "half the headers": [_POST, CLOSE],
    "HTTP/0.9": [b"GET /health\r\n\r\n"],
    "HTTP/9.9": [get(b"/health", version=b"HTTP/9.9")],
    "no version number": [get(b"/health", version=b"HTTP/x")],
    "HTTP/2 preface": [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"],
    "unknown method": [get(b"/health").replace(b"GET", b"BREW")],
    "lower-case method": [get(b"/health").replace(b"GET", b"get")],
    "method of 100 kB": [get(b"/health").replace(b"GET", b"G" * 100_000)],
    # Targets.
    "no target": [b"GET  HTTP/1.1\r\nHost: x\r\n\r\n"],
    "absolute target": [get(b"http://elsewhere.example/health")],
    "asterisk": [get(b"*").replace(b"GET", b"OPTIONS")],
    "authority": [get(b"x:80").replace(b"GET", b"CONNECT")],
    "target of 200 kB": [get(b"/" + b"a" * 200_000)],
    "NUL in the path": [get(b"/v1/mod\x00els")],
    "percent-encoded NUL": [get(b"/v1/models%00")],
    "percent-encoded bytes": [get(b"/%ff%fe%80")],
    "percent and no digits": [get(b"/%zz%")],
    "percent-encoded slashes": [get(b"/v1%2fmodels%2f..%2f..%2fetc/passwd")],
    "dots": [get(b"/../../../../etc/passwd")],
    "raw bytes in the path": [get(b"/\xff\xfe")],
    "raw bytes in the query": [get(b"/health?\xff=\xfe")],
    "a fragment": [get(b"/health#x")],
    # Headers.
    "header of 1 MB": [get(b"/health", b"X-Big: " + b"a" * 1_000_000)],
    "5,000 headers": [get(b"/health", *(b"X-%d: a" % n for n in range(5000)))],
    "header without a colon": [get(b"/health", b"no colon here")],
    "header without a name": [get(b"/health", b": nameless")],
    "space before the colon": [get(b"/health", b"X-Space : a")],
    "folded header": [get(b"/health", b"X-Folded: a", b" b")],
    "NUL in a header": [get(b"/health", b"X-Nul: a\x00b")],
    "injected header": [get(b"/health", b"X-Request-Id: a\rX-Injected: b")],
    "two hosts": [get(b"/health", b"Host: y")],
    "host of bytes": [get(b"/health").replace(b"Host: x", b"Host: \xff")],
    "no host": [get(b"/health").replace(b"Host: x\r\n", b"")],
    "escape codes to log": [get(b"/\x1b[31mred"), CLOSE],
    **{f"{name.decode()} odd": [post(name + b": nan")] for name in READ_BY_SERVE},
    # How long the body is.
    "length longer": [post(length=b"9999"), CLOSE],
    "length shorter": [post(length=b"7")],
    "length negative": [post(length=b"-5")],
    "length enormous": [post(length=b"9" * 30)],
    "length of 100 GB, nothing after": [post(length=b"100000000000"), CLOSE],
    "length no number": [post(length=b"abc")],
    "length in hex": [post(length=b"0x10")],
    "two lengths": [post(b"Content-Length: 7")],
    "a list of lengths": [post(length=b"42, 42")],
    "no length": [post(length=None), CLOSE],
    "length and chunks": [post(b"Transfer-Encoding: chunked", body=_WHOLE + _SMUGGLED)],
    "chunks and length": [
        chunked(_WHOLE + _SMUGGLED, headers=b"Transfer-Encoding: chunked\r\nContent-Length: 4")
    ],
    "encodings twice": [
        chunked(_WHOLE, headers=b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")
    ],
    "encoding disguised": [chunked(_WHOLE, headers=b"Transfer-Encoding:\x0bchunked")],
    "encoding unknown": [chunked(_WHOLE, headers=b"Transfer-Encoding: br"), CLOSE],
    # Chunks.
    "chunk size no number": [chunked(b"zz\r\nabc\r\n0\r\n\r\n")],
    "chunk size negative": [chunked(b"-1\r\nabc\r\n0\r\n\r\n")],
    "chunk size enormous": [chunked(b"f" * 40 + b"\r\nabc")],
    "chunk longer than said": [chunked(b"3\r\nabcdef\r\n0\r\n\r\n")],
    "chunk shorter than said": [chunked(b"ff\r\nabc\r\n0\r\n\r\n"), CLOSE],
    "chunks never ended": [chunked(b"2\r\n{}\r\n"), CLOSE],
    "chunk extension of 1 MB": [chunked(b"2;" + b"a" * 1_000_000 + b"\r\n{}\r\n0\r\n\r\n")],
    "trailer": [chunked(_WHOLE[:-2] + b"X-Trailer: a\r\n\r\n")],
    "a chunk for each byte": [chunked(*(b"1\r\n%c\r\n" % b for b in GOOD), b"0\r\n\r\n")],
    # What the body is.
    "invalid UTF-8": [post(body=b'{"response": "\xff\xc3\x28", "reference": "18"}')],
    "overlong UTF-8": [post(body=b'{"response": "\xc0\xaf", "reference": "18"}')],
    "a BOM": [post(body=b"\xef\xbb\xbf" + GOOD)],
    "UTF-16": [post(body=GOOD.decode().encode("utf-16"))],
    "a charset that lies": [post(b"Content-Type: application/json; charset=\xff")],
    "gzip declared": [post(b"Content-Encoding: gzip", body=gzip.compress(GOOD))],
    "gzip undeclared": [post(body=gzip.compress(GOOD))],
    "gzip declared and not": [post(b"Content-Encoding: gzip")],
    "a bomb, deflated": [post(b"Content-Encoding: deflate", body=zlib.compress(_BOMB))],
    "a bomb, gzipped": [post(b"Content-Encoding: gzip", body=gzip.compress(_BOMB))],
    "multipart": [post(b"Content-Type: multipart/form-data; boundary=x", body=b"--x\r\n\r\n")],
    "a form": [post(b"Content-Type: application/x-www-form-urlencoded", body=b"response=18")],
    "NULs": [post(body=b"\x00" * 1000)],
    # When it is sent.
    "slow headers": [b"GET /hea", 0.3, b"lth HTTP/1.1\r\nHo", 0.3, b"st: x\r\n\r\n"],
    "slow body": [post()[:-20], 0.3, post()[-20:]],
    "slow headers, never ended": [b"GET /health HTTP/1.1\r\n", 0.2, b"X-A: b\r\n", 0.2, CLOSE],
    "dropped in the headers": [_POST, 0.1, DROP],
    "dropped in the body": [post(length=b"500"), 0.1, DROP],
    "dropped as it is answered": [post(), DROP],
    "expecting 100, nothing after": [post(b"Expect: 100-continue", body=b"", length=b"42"), CLOSE],
    "expecting something else": [post(b"Expect: 200-ok")],
    # What else a connection is for.
    "pipelined": [post() * 20],
    "pipelined garbage": [post() + b"\x00\x01\x02\r\n\r\n"],
    "a websocket": [get(b"/v1/score", *_UPGRADE)],
    "a websocket to nowhere": [get(b"/nowhere", *_UPGRADE)],
    "a websocket without a key": [get(b"/v1/score", *_UPGRADE[:2])],
    "a websocket with bytes": [get(b"/v1/score", *_UPGRADE, b"X-Request-Id: \xff")],
    "h2c": [get(b"/health", b"Upgrade: h2c", b"Connection: Upgrade", b"HTTP2-Settings: AAMA")],
    "keep-alive in HTTP/1.0": [get(b"/health", b"Connection: keep-alive", version=b"HTTP/1.0")],
    "a batch that is dropped": [
        post(
            b"Accept: application/x-ndjson",
            body=json.dumps({"requests": [json.loads(GOOD)] * 1000}).encode(),
        ).replace(b"/v1/score", b"/v1/score/batch"),
        DROP,
    ],
}
