"""skyrl 0.4.0 on Python 3.11, for its generator and configuration alone."""

import sys
import typing

import typing_extensions

if sys.version_info < (3, 12):
    typing.TypedDict = typing_extensions.TypedDict  # type: ignore[misc]  # as pydantic asks
