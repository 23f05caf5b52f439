"""The base of the repositories: what a transaction is, and the decorators that put a method into one."""

from asyncio import Future
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import apsw
import msgspec

from hermes.store.database import Database
from hermes.util.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")
Value = TypeVar("Value", bound=msgspec.Struct)
Values = Sequence[object] | Mapping[str, object]
"""The values of a statement's parameters, by place or by name."""
AnyRepository = TypeVar("AnyRepository", bound="Repository")


def to_value(kind: type[Value], row: Sequence[object]) -> Value:
    """Return the struct whose fields, in their order, a row has."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind, strict=False)


class Transaction:
    """An open transaction, in the thread of its connection. `now` is when it was asked for."""

    __slots__ = ("changes", "connection", "execute", "executemany", "now")

    def __init__(self, connection: apsw.Connection, now: float) -> None:
        self.connection = connection
        self.now = now
        self.execute = connection.execute
        self.executemany = connection.executemany
        self.changes = connection.changes

    def select_all(self, kind: type[Value], query: str, values: Values = ()) -> list[Value]:
        """Return the rows of a query as structs whose fields, in their order, it selects."""
        return [to_value(kind, row) for row in self.execute(query, values)]

    def select_one(self, kind: type[Value], query: str, values: Values = ()) -> Value | None:
        """Return the first row of a query as a struct whose fields, in their order, it selects; None without a row."""
        row = self.execute(query, values).fetchone()
        return None if row is None else to_value(kind, row)

    def change_rows(self, statement: str, values: Values = ()) -> int:
        """Execute a statement; return how many rows it changed."""
        self.execute(statement, values)
        return self.changes()

    def change_any(self, statement: str, values: Values = ()) -> bool:
        """Execute a statement; return whether it changed any row."""
        return self.change_rows(statement, values) > 0

    def at_time(self, moment: float) -> "Transaction":
        """Return this transaction as if it had been asked for at another time."""
        return Transaction(self.connection, moment)


class Repository:
    """One subject of the store: methods that hold its SQL.

    A decorated method takes a transaction, which callers do not pass: `await store.goals.get(session_id)`. What several
    transactions need is a function over a transaction; `as_method` makes it a method too.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    def begin_held_writes(self) -> None:
        """Begin at once with the writes that would have joined the next one, since somebody waits for them."""
        self._database.begin_held_writes()


def reads(
    method: Callable[Concatenate[AnyRepository, Transaction, P], T],
) -> Callable[Concatenate[AnyRepository, P], Coroutine[None, None, T]]:
    """Run a method in the reader's thread, on one state of the database, and wait for its result."""

    @wraps(method)
    async def read(self: AnyRepository, /, *args: P.args, **kwargs: P.kwargs) -> T:
        now = self._clock.now()
        return await self._database.read(lambda connection: method(self, Transaction(connection, now), *args, **kwargs))

    return read


def writes(
    method: Callable[Concatenate[AnyRepository, Transaction, P], T],
) -> Callable[Concatenate[AnyRepository, P], Coroutine[None, None, T]]:
    """Run a method in the writer's thread, all or nothing, and wait until it is on disk."""

    @wraps(method)
    async def write(self: AnyRepository, /, *args: P.args, **kwargs: P.kwargs) -> T:
        now = self._clock.now()
        return await self._database.write(
            lambda connection: method(self, Transaction(connection, now), *args, **kwargs)
        )

    return write


def queues(
    method: Callable[Concatenate[AnyRepository, Transaction, P], T],
) -> Callable[Concatenate[AnyRepository, P], Future[T]]:
    """Queue a method behind all earlier writes and return at once; the future gives its result once it is on disk.

    Raises `BusyError` when the queue is full.
    """

    @wraps(method)
    def submit(self: AnyRepository, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        now = self._clock.now()
        return self._database.submit(lambda connection: method(self, Transaction(connection, now), *args, **kwargs))

    return submit


def joins_next(
    method: Callable[Concatenate[AnyRepository, Transaction, P], T],
) -> Callable[Concatenate[AnyRepository, P], Future[T]]:
    """Queue a method as `queues` does, together with the next write: for what need not be on disk before that is."""

    @wraps(method)
    def submit(self: AnyRepository, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        now = self._clock.now()
        return self._database.submit_with_next(
            lambda connection: method(self, Transaction(connection, now), *args, **kwargs)
        )

    return submit


def as_method(
    function: Callable[Concatenate[Transaction, P], T],
) -> Callable[Concatenate[Repository, Transaction, P], T]:
    """Make a function over a transaction a method, to be decorated."""

    @wraps(function)
    def method(_self: Repository, tx: Transaction, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return function(tx, *args, **kwargs)

    return method
