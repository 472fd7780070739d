"""The tasks that `next` writes for Label Studio, checked by its own library."""

import pytest

from tasks.label_care.cards import Card
from tasks.label_care.queue import Queue
from tasks.label_care.queue_files import interface, label_studio_tasks

NAMES = ["=sum", "sea & <b>", "sky"]


@pytest.mark.parametrize("single", [True, False])
def test_label_studio_accepts_the_tasks_of_a_queue(single: bool) -> None:
    sdk = pytest.importorskip("label_studio_sdk.label_interface", reason="optional")
    parsed = sdk.LabelInterface(interface(NAMES, single))
    parsed.validate()
    assert [one.labels for one in parsed.controls] == [NAMES]
    cards = [
        Card("a b#.png", "random", None, tuple(NAMES[1:]), ("why",), scores={"sky": 0.9, "sea & <b>": 0.4}),
        Card("b.png", "random", None, (), ("why",)),
    ]
    for task in label_studio_tasks(Queue("random", cards), "model"):
        assert parsed.validate_task({"data": task["data"]})
        assert all(parsed.validate_prediction(one) for one in task["predictions"])
    (unknown,) = label_studio_tasks(Queue("random", [Card("x", "random", None, ("sea",), ("w",))]), "model")
    assert not parsed.validate_prediction(unknown["predictions"][0])
