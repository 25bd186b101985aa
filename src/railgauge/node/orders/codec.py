"""Orders as JSON: frozen dataclasses are written to a document and read back from it.

A field without a default always stands in the document. A field with one stands there if its value
is another. `Order.read` raises OrderError for an unknown key, a missing key, or a value of another
type. JSON lists become tuples.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin

AnyOrder = TypeVar("AnyOrder", bound="Order")


class OrderError(ValueError):
    """An order that no program can follow: where, what was found, what was expected."""


@dataclasses.dataclass(frozen=True)
class Order:
    """What all orders share. A subclass names its fields and their types, and no type as text:
    Python 3.9 cannot evaluate the text of a union.
    """

    def document(self) -> dict[str, Any]:
        """The order as JSON has it."""
        return {
            field.name: _written(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if _is_required(field) or getattr(self, field.name) != _default(field)
        }

    @classmethod
    def read(cls: type[AnyOrder], document: Any, where: str = "") -> AnyOrder:
        """The order in a JSON document; OrderError where it is none. `where` begins the message."""
        where = where or cls.__name__
        if not isinstance(document, dict):
            raise OrderError(f"{where}: found {_shown(document)}, expected an object")
        types, required = _fields(cls)
        if unknown := [name for name in document if name not in types]:
            keys = ", ".join(types)
            raise OrderError(f"{where}: unknown key {', '.join(unknown)}, expected one of {keys}")
        if missing := [name for name in required if name not in document]:
            raise OrderError(f"{where}: key {', '.join(missing)} is missing")
        return cls(**{n: _read(types[n], value, f"{where}.{n}") for n, value in document.items()})


def _fields(cls: type[Order]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The type of each field by its name, and the names that a document must have."""
    fields = dataclasses.fields(cls)
    required = tuple(field.name for field in fields if _is_required(field))
    return {field.name: field.type for field in fields}, required


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _written(value: Any) -> Any:
    if isinstance(value, Order):
        return value.document()
    if isinstance(value, Mapping):
        return {name: _written(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(one) for one in value]
    return value


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of a document as `kind`, the type of a field, has it."""
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Union:
        # Optional[X] is the only union of the orders.
        return None if value is None else _read(arguments[0], value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], one, f"{where}[{n}]") for n, one in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {name: _read(arguments[1], one, f"{where}.{name}") for name, one in value.items()}
    if origin is None and issubclass(kind, Order):
        return kind.read(value, where)
    if origin is None and _is_of(kind, value):
        return value
    raise OrderError(f"{where}: found {_shown(value)}, expected {_name(kind)}")


def _is_of(kind: type, value: Any) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _name(kind: Any) -> str:
    names: dict[Any, str] = {
        tuple: "a list",
        Mapping: "an object",
        str: "a text",
        bool: "true or false",
    }
    return names.get(get_origin(kind) or kind, "a whole number" if kind is int else "a number")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
