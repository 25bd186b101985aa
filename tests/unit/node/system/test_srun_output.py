"""Long texts of a job's tasks, whose lines mix."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from railgauge.node.system import srun_output

TEXTS = st.dictionaries(
    st.sampled_from(["n1", "n2", "n3"]),
    st.integers(1, 4000).map(lambda length: (string.printable[:95] * 50)[:length]),
    min_size=1,
)


def labelled(node: str, text: str, task: int | None = None) -> list[str]:
    """What srun --label makes of it."""
    label = int(node[1:]) - 1 if task is None else task
    return [f"{label:3d}: {line}" for line in srun_output.lines(node, text)]


@given(TEXTS, st.data())
def test_lines_of_tasks_may_come_in_any_order(texts: dict[str, str], data: st.DataObject) -> None:
    printed = [line for node, text in texts.items() for line in labelled(node, text)]
    mixed = data.draw(st.permutations(["a prolog's word", *printed]))
    assert srun_output.texts("\n".join(mixed)) == texts


@given(TEXTS, st.data())
def test_a_text_of_which_something_is_missing_is_none(
    texts: dict[str, str], data: st.DataObject
) -> None:
    node = data.draw(st.sampled_from(sorted(texts)))
    printed = labelled(node, texts[node])
    lost = data.draw(st.integers(0, len(printed) - 1))
    others = [line for n, text in texts.items() if n != node for line in labelled(n, text)]
    left = srun_output.texts("\n".join([*printed[:lost], *printed[lost + 1 :], *others]))
    assert left == {name: text for name, text in texts.items() if name != node}


def test_no_line_is_longer_than_slurm_passes_on_whole() -> None:
    name = "n" * 63
    assert max(len(line) for line in srun_output.lines(name, "x" * 100_000)) < 1000


def test_nothing_is_believed_of_a_task_that_speaks_for_two_nodes_nor_of_a_node_that_has_two() -> (
    None
):
    two = [*labelled("n1", "a"), *labelled("n2", "b", task=0), *labelled("n3", "c")]
    assert srun_output.texts("\n".join(two)) == {"n3": "c"}
    twice = [*labelled("n1", "a"), *labelled("n1", "b", task=5)]
    assert srun_output.texts("\n".join(twice)) == {}
