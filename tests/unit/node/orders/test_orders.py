"""Orders are written as JSON and read back as they were; what is no order is refused."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.orchestration import sweep_file
from railgauge.node.orders.codec import Order, OrderError
from railgauge.node.orders.places import ClientServerOrder, LinkOrder, RailOrder, SingleNodeOrder
from railgauge.node.orders.ranks import (
    Group,
    Launcher,
    LaunchList,
    LaunchOrder,
    LaunchRound,
    MpiUnderLoadOrder,
    ProgramOrder,
    RanksOrder,
    TableOrder,
)

KINDS = (ClientServerOrder, SingleNodeOrder, RanksOrder, MpiUnderLoadOrder, LaunchList)

ORDER = ClientServerOrder(30, 60, (), ("s",), ("c",), ())
ALONE = SingleNodeOrder(60, ("true",), (), result="r.json")
RANKS = RanksOrder("SLURM_PROCID", "tool", ("true",), (), 60)
MPI = MpiUnderLoadOrder(
    *("SLURM_PROCID", "tool", {}, {"server": "n1", "client": "n2"}, ORDER),
    ProgramOrder("mpi", ("true",), (), 60),
)
TABLE = TableOrder("busbw", ("busbw",), "#wrong", "0 OK")
LAUNCHES = LaunchList(
    *("tool", ("n1",), 1, 1000, Launcher("srun", ("srun",)), ("true",)),
    *((LaunchRound((0,), 0),), (Group("n1", ("n1",)),)),
    orders=(LaunchOrder(RANKS, TABLE, {}, None, {}, {}, 0.2, 10, 60),),
)

#: What a field of type Any may have: JSON documents for programs that are not ours.
DOCUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2)


def values(kind: Any) -> st.SearchStrategy[Any]:
    """The values of a field of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return DOCUMENTS
    if origin is Union:
        return st.none() | values(arguments[0])
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=1).map(tuple)
    if origin is collections.abc.Mapping:
        return st.dictionaries(st.text(max_size=3), values(arguments[1]), max_size=1)
    if isinstance(kind, type) and issubclass(kind, Order):
        return orders(kind)
    known: dict[Any, st.SearchStrategy[Any]] = {
        str: st.text(max_size=5),
        int: st.integers(),
        float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
        bool: st.booleans(),
    }
    return known[kind]


@functools.cache
def orders(kind: type[Order]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{f.name: values(f.type) for f in dataclasses.fields(kind)})


#: A valid document of each kind.
EXAMPLES: dict[type[Order], dict[str, Any]] = {
    ClientServerOrder: ORDER.document(),
    SingleNodeOrder: ALONE.document(),
    RanksOrder: RANKS.document(),
    MpiUnderLoadOrder: MPI.document(),
    LaunchList: LAUNCHES.document(),
}


def through_json(order: Order) -> Any:
    return json.loads(json.dumps(order.document()))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_an_order_is_read_as_it_was_written(kind: type[Order], data: st.DataObject) -> None:
    order = data.draw(orders(kind))
    assert kind.read(through_json(order)) == order


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_with_another_key_is_refused(kind: type[Order]) -> None:
    with pytest.raises(OrderError, match=f"^{kind.__name__}: unknown key least_gbit, expected one"):
        kind.read({**EXAMPLES[kind], "least_gbit": 1})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, field.name)
        for kind in KINDS
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    ],
)
def test_a_document_without_a_required_key_is_refused(kind: type[Order], name: str) -> None:
    document = {key: value for key, value in EXAMPLES[kind].items() if key != name}
    with pytest.raises(OrderError, match=f"^{kind.__name__}: key {name} is missing$"):
        kind.read(document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_value_of_any_other_type_raises_no_other_error(
    kind: type[Order], data: st.DataObject
) -> None:
    known = [field.name for field in dataclasses.fields(kind)]
    document = {**EXAMPLES[kind], data.draw(st.sampled_from(known)): data.draw(JSON)}
    try:
        order = kind.read(document)
    except OrderError:
        return
    assert kind.read(through_json(order)) == order


def test_what_has_its_default_is_not_written() -> None:
    assert set(ORDER.document()) == {
        *("start_limit_s", "run_limit_s", "budgets", "server", "client", "version")
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run_limit_s": "60"}, "run_limit_s: found '60', expected a number"),
        ({"run_limit_s": True}, "run_limit_s: found True, expected a number"),
        ({"server": "iperf"}, "server: found 'iperf', expected a list"),
        ({"server": ["iperf", 5]}, r"server\[1\]: found 5, expected a text"),
        ({"programs": {"server": "sshd"}}, "programs.server: found 'sshd', expected a list"),
        ({"rdma": {"devices": "m"}}, "rdma: key names, count, .* is missing"),
        ({"links": [{"interfaces": "e"}]}, r"links\[0\]: unknown key interfaces, expected one of"),
        ({"wan": []}, r"wan: found \[\], expected an object"),
    ],
)
def test_an_error_says_where_and_what_was_expected(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(OrderError, match=rf"^order 0\.{words}"):
        ClientServerOrder.read({**ORDER.document(), **changes}, "order 0")


def test_a_rail_is_within_a_link_of_several() -> None:
    rail = RailOrder("mlx5_.*", (), 2, None, False, {"server": 0, "client": 1})
    order = dataclasses.replace(ORDER, links=(LinkOrder(rdma=rail), LinkOrder(interface="eth0")))
    assert ClientServerOrder.read(through_json(order)) == order


# ---- the list of a sweep ----


def swept(**changes: Any) -> sweep_file.Sweep:
    places = {
        0: sweep_file.Place(0, "n1:n2", "client_server", {"server": "n1", "client": "n2"}, 0),
        1: sweep_file.Place(1, "n1", "single_node", {"node": "n1"}, 1, of=1),
    }
    known = sweep_file.Sweep(
        *("tool", ("n1", "n2"), {"n1": ("n1-ib",)}, ()),
        *([(0,), (1,)], places, (ORDER, ALONE), 60.0),
    )
    return known._replace(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"enough": "/campaign/enough"},
        {"retests": sweep_file.Retests(3, 0.2)},
        {"retests": sweep_file.Retests(3, 0.2, {"n1": "leaf1"}, {"n1:n2": 9.4}, 0.1)},
    ],
)
def test_a_sweep_is_read_as_it_was_written(tmp_path: Any, changes: dict[str, Any]) -> None:
    sweep = swept(**changes)
    (tmp_path / "sweep.json").write_text(json.dumps(sweep.document()))
    assert sweep_file.read(tmp_path / "sweep.json") == sweep


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"orders": [{}, {}]}, "order 0: key start_limit_s, .* is missing"),
        ({"orders": [ORDER.document(), ORDER.document()]}, "order 1: unknown key start_limit_s"),
        ({"orders": [*swept().document()["orders"], {}]}, "order 2 is of no place"),
        ({"retest": {}}, "unknown key retest"),
    ],
)
def test_a_sweep_with_an_order_of_another_kind_is_refused(
    tmp_path: Any, change: dict[str, Any], words: str
) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps({**swept().document(), **change}))
    with pytest.raises(sweep_file.SweepError, match=rf"sweep\.json: {words}"):
        sweep_file.read(tmp_path / "sweep.json")


# ---- the orders of real checks ----

GOLDEN = Path(__file__).parents[3] / "data" / "golden"


def golden_orders() -> Iterator[tuple[str, type[Order], dict[str, Any]]]:
    """Each order of the golden files that is whole, with its file and its kind."""
    kinds: dict[str, type[Order]] = {
        "ranks.json": RanksOrder,
        "mpi_under_load.json": MpiUnderLoadOrder,
    }
    for file in sorted(GOLDEN.glob("*/*.txt")):
        _, *parts = re.split(r"^-- (.*)\n", file.read_text(), flags=re.MULTILINE)
        by_name = dict(zip(parts[::2], parts[1::2], strict=True))
        for name, text in by_name.items():
            kind = kinds.get(name)
            if re.fullmatch("order [0-9]+", name):
                of_launches = '"launcher"' in by_name["sweep.json"]
                of_node = '"argv"' in text and not of_launches
                kind = LaunchOrder if of_launches else ClientServerOrder
                kind = SingleNodeOrder if of_node else kind
            if kind is not None:
                yield f"{file.parent.name}/{file.stem}: {name}", kind, json.loads(text)


def test_the_order_of_every_job_is_read_as_it_was_written() -> None:
    orders_read = 0
    for name, kind, document in golden_orders():
        assert kind.read(document, name).document() == document
        orders_read += 1
    assert orders_read > 100
