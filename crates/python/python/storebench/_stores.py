"""Stores that are Python classes."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from . import _errors, _native

OPERATIONS = (
    "read",
    "upsert",
    "insert",
    "replace",
    "delete",
    "exists",
    "append",
    "prepend",
    "touch",
    "counter",
    "merge_patch",
    "bulk_read",
    "bulk_upsert",
    "bulk_insert",
    "bulk_delete",
    "prefix",
    "scan",
)
"""The methods that are operations. See ``docs/python-stores.md``."""

NEEDED = ("read", "upsert", "collections", "drop")
"""The methods that every store needs."""

StoreClass = Callable[[], Any]
"""A class whose objects are sessions of a store; or ``functools.partial`` of one, for arguments."""

OneStore = str | StoreClass
"""The URL of a store, or a class."""


class NotDone(Exception):
    """A store raises it for an operation that failed and changed nothing."""

    store_error = "failed"


class Temporary(NotDone):
    """A store raises it for an operation that changed nothing and may succeed later, such as when it is busy."""

    store_error = "temporary"


class Refused(NotDone):
    """A store raises it for an operation that it will never perform, such as a document that is too large."""

    store_error = "refused"


@functools.cache
def loop() -> asyncio.AbstractEventLoop:
    """The event loop of all coroutines, on a thread of its own."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="storebench-asyncio", daemon=True).start()
    return made


async def awaited(value: Awaitable[Any]) -> Any:
    """Awaits any awaitable."""
    return await value


class Adapter:
    """What the native module needs of a class."""

    def __init__(self, made_by: StoreClass) -> None:
        self.made_by = made_by
        kind = made_by
        while isinstance(kind, functools.partial):
            kind = kind.func
        if not inspect.isclass(kind):
            raise _errors.of(2, f"a store is a URL or a class, not {kind!r}; for arguments, use functools.partial")
        self.name = f"{kind.__module__}.{kind.__qualname__}".replace("<locals>.", "")
        missing = [name for name in NEEDED if not callable(getattr(kind, name, None))]
        if missing:
            raise _errors.of(
                2, f"{self.name} has no method {', '.join(missing)}; every store needs {', '.join(NEEDED)}"
            )
        self.operations = [name for name in OPERATIONS if callable(getattr(kind, name, None))]
        coroutines = [name for name in self.operations if inspect.iscoroutinefunction(getattr(kind, name))]
        if coroutines and coroutines != self.operations:
            plain = [name for name in self.operations if name not in coroutines]
            raise _errors.of(2, f"{self.name}: {', '.join(plain)} must be `async def`, as {', '.join(coroutines)}")
        self.is_async = bool(coroutines)
        self.durability = str(getattr(kind, "durability", "none"))
        self.consistency = str(getattr(kind, "consistency", "strong"))
        self.controller: Any = None

    def open(self) -> Any:
        """Makes an object: a session."""
        if not self.is_async:
            return self.made_by()

        async def made() -> Any:
            # Clients are often bound to the loop in which they were made.
            return self.made_by()

        return finished(made())

    def close(self, session: Any) -> None:
        """Closes a session, if its class can."""
        close = getattr(session, "close", None)
        if close is not None:
            finished(close())

    def control(self, name: str, *arguments: str) -> Any:
        """Calls a method outside a phase, on an object of its own."""
        if self.controller is None:
            self.controller = self.open()
        method = getattr(self.controller, name, None)
        if method is None:
            # Only ``create`` may be missing.
            return None
        if name == "upsert":
            collection, key, document = arguments
            return finished(method(collection, key, document.encode()))
        return finished(method(*arguments))

    def bulk_upsert(self, session: Any, collection: str, items: list[tuple[str, bytes]]) -> Any:
        """Upserts one document after the other."""
        return self.each(lambda item: session.upsert(collection, *item), items, lambda done: None)

    def bulk_insert(self, session: Any, collection: str, items: list[tuple[str, bytes]]) -> Any:
        """Inserts one document after the other. Returns whether each was new."""
        return self.each(lambda item: session.insert(collection, *item), items, lambda done: [bool(new) for new in done])

    def bulk_read(self, session: Any, collection: str, keys: list[str]) -> Any:
        """Reads one document after the other. Returns keys and documents of those that exist."""

        def found(done: list[Any]) -> list[tuple[str, Any]]:
            return [(key, document) for key, document in zip(keys, done, strict=True) if document is not None]

        return self.each(lambda key: session.read(collection, key), keys, found)

    def bulk_delete(self, session: Any, collection: str, keys: list[str]) -> Any:
        """Deletes one document after the other. Returns how many existed."""
        return self.each(lambda key: session.delete(collection, key), keys, lambda done: sum(map(bool, done)))

    def each(self, call: Callable[[Any], Any], items: Sequence[Any], reply: Callable[[list[Any]], Any]) -> Any:
        """Calls a method for each item. Returns the reply, or a coroutine of it."""
        if not self.is_async:
            return reply([call(item) for item in items])

        async def all() -> Any:
            return reply([await call(item) for item in items])

        return all()

    def begin(self, coroutine: Coroutine[Any, Any, Any], ended: Callable[[Any], None]) -> None:
        """Starts an operation. ``ended`` gets its future."""
        asyncio.run_coroutine_threadsafe(coroutine, loop()).add_done_callback(ended)


def finished(value: Any) -> Any:
    """Waits for a coroutine. Returns any other value."""
    if inspect.isawaitable(value):
        return asyncio.run_coroutine_threadsafe(awaited(value), loop()).result()
    return value


provided: dict[str, StoreClass] = {}
"""The classes that verbs can open, by name."""


def url_of(store: OneStore) -> str:
    """Returns the URL of a store."""
    if isinstance(store, str):
        return store
    adapter = Adapter(store)
    names = (adapter.name if n == 1 else f"{adapter.name}-{n}" for n in range(1, 10**6))
    name = next(name for name in names if provided.get(name, store) == store)
    provided[name] = store
    _native.provide(name, adapter)
    return f"python:{name}"


def words_of(stores: OneStore | Sequence[OneStore] | Mapping[str, OneStore] | None) -> None | str | list[str]:
    """Converts stores to values of the option ``--store``."""
    if stores is None:
        return None
    if isinstance(stores, str) or callable(stores):
        return url_of(stores)
    if isinstance(stores, Mapping):
        return [f"{name}={url_of(store)}" for name, store in stores.items()]
    return [url_of(store) for store in stores]
