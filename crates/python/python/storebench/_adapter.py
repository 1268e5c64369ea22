"""The adapter of a store that is a Python class. Imported only for such stores, because asyncio takes long to import."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import hashlib
import inspect
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from . import _errors
from ._stores import Refused, StoreClass

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


@functools.cache
def loop() -> asyncio.AbstractEventLoop:
    """The event loop of all coroutines, on a thread of its own."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="storebench-asyncio", daemon=True).start()
    return made


# In a child of fork, the thread of the loop is gone.
os.register_at_fork(after_in_child=loop.cache_clear)

CLOSE_LIMIT_S = 5.0
"""How long to wait for cancelled operations before their session is closed."""


def on_loop(call: Callable[[], Any]) -> Any:
    """Calls a function on the loop's thread, and waits for it. Clients are often bound to the loop that made them."""

    async def called() -> Any:
        value = call()
        return await value if inspect.isawaitable(value) else value

    return asyncio.run_coroutine_threadsafe(called(), loop()).result()


class Adapter:
    """What the native module needs of a class."""

    def __init__(self, made_by: StoreClass) -> None:
        self.made_by = made_by
        kind = made_by
        while isinstance(kind, functools.partial):
            kind = kind.func
        if not inspect.isclass(kind):
            raise _errors.of(2, f"a store is a URL or a class, not {kind!r}; for arguments, use functools.partial")
        self.name = name_of(made_by, kind)
        missing = [name for name in NEEDED if not callable(getattr(kind, name, None))]
        if missing:
            raise _errors.of(
                2, f"{self.name} has no method {', '.join(missing)}; every store needs {', '.join(NEEDED)}"
            )
        self.operations = [name for name in OPERATIONS if callable(getattr(kind, name, None))]
        coroutines = [name for name in self.operations if inspect.iscoroutinefunction(getattr(kind, name))]
        if coroutines and coroutines != self.operations:
            plain = [name for name in self.operations if name not in coroutines]
            raise _errors.of(
                2,
                f"{self.name}: {', '.join(plain)} must be `async def`, because {', '.join(coroutines)} is; make all"
                " operations async, or none",
            )
        self.is_async = bool(coroutines)
        self.durability = str(getattr(kind, "durability", "none"))
        self.consistency = str(getattr(kind, "consistency", "strong"))
        self.controller: Any = None
        self.pending: dict[int, set[concurrent.futures.Future[Any]]] = {}

    def perform(self, call: Callable[[], Any]) -> Any:
        """Calls something outside a phase, and waits for a coroutine."""
        if self.is_async:
            return on_loop(call)
        value = call()
        return on_loop(lambda: value) if inspect.isawaitable(value) else value

    def open(self) -> Any:
        """Makes an object: a session."""
        return self.perform(self.made_by)

    def close(self, session: Any) -> None:
        """Closes a session, if its class can. Nobody waits for its operations any more."""
        pending = self.pending.pop(id(session), set())
        for operation in list(pending):
            operation.cancel()
        concurrent.futures.wait(list(pending), CLOSE_LIMIT_S)
        close = getattr(session, "close", None)
        if close is not None:
            self.perform(close)

    def close_control(self) -> None:
        """Closes the object of :meth:`control`. The next call makes another one."""
        controller, self.controller = self.controller, None
        if controller is not None:
            self.close(controller)

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
            return self.perform(lambda: method(collection, key, document.encode()))
        return self.perform(lambda: method(*arguments))

    def bulk_upsert(self, session: Any, collection: str, items: list[tuple[str, bytes]]) -> Any:
        """Upserts one document after the other."""
        return self.each(lambda item: session.upsert(collection, *item), items, lambda done: None, True)

    def bulk_insert(self, session: Any, collection: str, items: list[tuple[str, bytes]]) -> Any:
        """Inserts one document after the other. Returns whether each was new."""
        return self.each(lambda item: session.insert(collection, *item), items, lambda done: [yes(new) for new in done], True)

    def bulk_read(self, session: Any, collection: str, keys: list[str]) -> Any:
        """Reads one document after the other. Returns keys and documents of those that exist."""

        def found(done: list[Any]) -> list[tuple[str, Any]]:
            return [(key, document) for key, document in zip(keys, done, strict=True) if document is not None]

        return self.each(lambda key: session.read(collection, key), keys, found, False)

    def bulk_delete(self, session: Any, collection: str, keys: list[str]) -> Any:
        """Deletes one document after the other. Returns how many existed."""
        return self.each(lambda key: session.delete(collection, key), keys, lambda done: sum(map(yes, done)), True)

    def each(
        self, call: Callable[[Any], Any], items: Sequence[Any], reply: Callable[[list[Any]], Any], writes: bool
    ) -> Any:
        """Calls a method for each item. Returns the reply, or a coroutine of it."""
        done: list[Any] = []

        def failed(error: Exception) -> Exception:
            if not (writes and done and hasattr(error, "store_error")):
                return error
            # Of the whole request, it is not true that nothing was done.
            return RuntimeError(f"after {len(done)} of {len(items)} documents: {type(error).__name__}: {error}")

        if not self.is_async:
            for item in items:
                try:
                    value = call(item)
                except Exception as error:
                    raise failed(error) from error
                if inspect.isawaitable(value):
                    # Otherwise Python warns that nobody awaited it.
                    getattr(value, "close", lambda: None)()
                    raise Refused("a method returned an awaitable; define it with `async def`")
                done.append(value)
            return reply(done)

        async def all() -> Any:
            for item in items:
                try:
                    done.append(await call(item))
                except Exception as error:
                    raise failed(error) from error
            return reply(done)

        return all()

    def begin(
        self, session: Any, coroutine: Coroutine[Any, Any, Any], ended: Callable[[Any], None]
    ) -> concurrent.futures.Future[Any]:
        """Starts an operation. ``ended`` gets its future."""
        future = asyncio.run_coroutine_threadsafe(coroutine, loop())
        pending = self.pending.setdefault(id(session), set())
        pending.add(future)
        future.add_done_callback(pending.discard)
        future.add_done_callback(ended)
        return future


def yes(value: Any) -> bool:
    """What a method says of one document."""
    if value is None:
        raise TypeError("the method returned None, expected True or False; see docs/python-stores.md")
    return bool(value)


def name_of(made_by: StoreClass, kind: type) -> str:
    """The name of a class in its URL. It is the same in each process, so that a copy can be resumed."""
    name = f"{kind.__module__}.{kind.__qualname__}".replace("<locals>.", "")
    arguments: list[Any] = []
    while isinstance(made_by, functools.partial):
        arguments.append((made_by.args, sorted(made_by.keywords.items())))
        made_by = made_by.func
    if not arguments:
        return name
    # Not the arguments themselves: one may be a password.
    return f"{name}-{hashlib.sha256(repr(arguments).encode()).hexdigest()[:8]}"
