"""Stores that are Python classes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _errors, _native

StoreClass = Callable[[], Any]
"""A class whose objects are sessions of a store; or ``functools.partial`` of one, for arguments."""

OneStore = str | os.PathLike[str] | StoreClass
"""The URL of a store or the path of a file, or a class."""


class NotDone(Exception):
    """Raise this in a store's method if the operation failed and changed nothing."""

    store_error = "failed"


class Temporary(NotDone):
    """Raise this if the operation changed nothing and a retry may succeed, for example because the store is busy."""

    store_error = "temporary"


class Refused(NotDone):
    """Raise this if the store will never accept the operation, for example because the document is too large."""

    store_error = "refused"


def url_of(store: OneStore) -> str:
    """Returns the URL of a store. A class replaces an earlier one of the same name."""
    if isinstance(store, (str, os.PathLike)):
        return _errors.path("store", store)
    from ._adapter import Adapter

    adapter = Adapter(store)
    _native.provide(adapter.name, adapter)
    return f"python:{adapter.name}"


def urls_of(stores: Sequence[OneStore]) -> list[str]:
    """Returns the URLs of the stores of one verb."""
    urls = [url_of(store) for store in stores]
    for at, (url, store) in enumerate(zip(urls, stores, strict=True)):
        first = urls.index(url)
        if first < at and callable(store) and not same(store, stores[first]):
            raise _errors.of(2, f"two classes are called {url.removeprefix('python:')}; rename one of them")
    return urls


def same(one: OneStore, other: OneStore) -> bool:
    """Whether two stores are the same class with the same arguments."""
    if isinstance(one, functools.partial) and isinstance(other, functools.partial):
        return bool(one.func is other.func)
    return one is other


def words_of(stores: OneStore | Sequence[OneStore] | Mapping[str, OneStore] | None) -> None | str | list[str]:
    """Converts stores to values of the option ``--store``."""
    if stores is None:
        return None
    if isinstance(stores, Mapping):
        urls = urls_of(list(stores.values()))
        return [f"{name}={url}" for name, url in zip(stores, urls, strict=True)]
    if isinstance(stores, Sequence) and not isinstance(stores, str):
        return urls_of(stores)
    return url_of(stores)
