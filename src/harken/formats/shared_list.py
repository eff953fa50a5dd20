"""`SharedList`: an immutable list that shares its beginning with the list that it extends.

A conversation grows at its end, and each request repeats it. With lists of its own, each request
would copy the references to all elements, and release those of the request before. So the lists of
a conversation share an array of elements, which only grows, and each has a short end of its own. A
list that continues in another way gets another array.

Elements are compared by identity. Not thread-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import TypeVar, overload

T = TypeVar("T")


class SharedList(Sequence[T]):
    """An immutable list. It can be referenced weakly."""

    __slots__ = ("__weakref__", "_array", "_end", "_shared_count")

    def __init__(self, elements: Iterable[T] = ()) -> None:
        """Copy the elements."""
        self._array: list[T] = []
        self._shared_count = 0
        """The number of elements that are the first ones of the array."""
        self._end = [*elements]

    def __len__(self) -> int:
        return self._shared_count + len(self._end)

    def __iter__(self) -> Iterator[T]:
        return chain(islice(self._array, self._shared_count), self._end)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        count = self._shared_count
        if isinstance(index, slice):
            start, stop, step = index.indices(count + len(self._end))
            if step != 1:
                return [*self][index]
            if start >= count:
                return self._end[start - count : max(stop - count, 0)]
            return self._array[start : min(stop, count)] + self._end[: max(stop - count, 0)]
        index = index if index >= 0 else count + len(self._end) + index
        if index < 0:
            raise IndexError(index)
        return self._array[index] if index < count else self._end[index - count]

    @property
    def shared_count(self) -> int:
        """The number of its elements that other lists can share."""
        return self._shared_count

    def first(self, count: int) -> SharedList[T]:
        """Return a list of the first elements, at most `count`."""
        shared_count = min(count, self._shared_count)
        if 2 * shared_count < len(self._array):  # A short list does not keep a long one alive.
            return SharedList(self[:count])
        return self._share(self._array, shared_count, self._end[: count - shared_count])

    def with_end(self, elements: Sequence[T]) -> SharedList[T]:
        """Return a list with these elements after its own."""
        return self._share(self._array, self._shared_count, [*self._end, *elements])

    def with_shared(self, count: int) -> SharedList[T]:
        """Return an equal list whose first elements, `count` or more, other lists can share."""
        array, start = self._array, self._shared_count
        new = self._end[: max(count - start, 0)]
        existing = array[start : start + len(new)]
        if existing != new[: len(existing)]:  # Another list continues with other elements.
            array, existing = array[:start], []
        array += new[len(existing) :]
        return self._share(array, start + len(new), self._end[len(new) :])

    def common_length(self, other: SharedList[T]) -> int:
        """Return how many elements at the beginning of both lists are identical.

        The class of the elements must not define equality. Elements in the same array are not
        compared. Others are, without a Python loop: 4,000 take some 20 microseconds.
        """
        stop = min(len(self), len(other))
        if self.is_of_same_array(other):
            start = min(self._shared_count, other._shared_count)
            ends = zip(self[start:stop], other[start:stop], strict=True)
            pairs_before = takewhile(lambda pair: pair[0] is pair[1], ends)
            return start + sum(1 for _ in pairs_before)
        start, step = 0, 1
        while start < stop:
            end = min(start + step, stop)
            if self[start:end] == other[start:end]:
                start, step = end, 2 * step
            else:
                stop, step = end - 1, max((end - start) // 2, 1)
        return start

    def is_of_same_array(self, other: SharedList[T]) -> bool:
        """Whether both lists share elements, which are not compared again."""
        return self._array is other._array

    @classmethod
    def _share(cls, array: list[T], shared_count: int, end: list[T]) -> SharedList[T]:
        shared: SharedList[T] = cls.__new__(cls)
        shared._array, shared._shared_count, shared._end = array, shared_count, end
        return shared
