"""Whatever is wrong with a reply, however odd, concerns that reply only."""

from collections.abc import Mapping

import numpy as np
import pytest

from fedmerit import Server
from fedmerit.errors import SettingError
from fedmerit.incentive.rewards import PositiveShare
from tests.server.federation import CLIENTS, cut, facts, model, new, updates


class OddError(Exception):
    """An error that nobody foresees."""

    def __str__(self):
        raise RuntimeError("not even words")


class Raises:
    """An array of somebody's own: one of its parts raises."""

    def __init__(self, part, error):
        self.part, self.error = part, error

    def __getattr__(self, name):
        if name != self.__dict__["part"]:
            raise AttributeError(name)
        raise self.error

    def __array__(self, dtype=None, copy=None):
        raise self.error


class Pulled(Mapping):
    """A reply whose arrays cannot be fetched."""

    def __getitem__(self, name):
        raise ConnectionError(f"{name} is gone")

    def __iter__(self):
        return iter(cut(updates(1)["dan"]))

    def __len__(self):
        return 4


def meta_tensor():
    torch = pytest.importorskip("torch")
    return cut(updates(1)["dan"]) | {"in.bias": torch.zeros(60, device="meta")}


def raising(part, error):
    return lambda: cut(updates(1)["dan"]) | {"in.bias": Raises(part, error)}


REPLIES = {
    "detach": raising("detach", RuntimeError("no graph")),
    "cpu": raising("cpu", MemoryError("no room")),
    "dtype": raising("dtype", OSError("no file")),
    "array": raising("nothing", ZeroDivisionError("no sense")),
    "no words": raising("cpu", OddError()),
    "meta": meta_tensor,
    "mapping": Pulled,
}


def judged_without(server):
    sent = {c: cut(u) for c, u in updates(1).items() if c != "dan"}
    return facts(server.settle(updates=sent)) | {"rejected": {}}


def start():
    return Server(cut(model()), seed=5)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_that_raises_is_refused_and_the_others_are_judged(name):
    sent = {c: cut(u) for c, u in updates(1).items()} | {"dan": REPLIES[name]()}
    result = start().settle(updates=sent)
    assert list(result.rejected) == ["dan"]
    assert result.rejected["dan"].startswith(("in.bias must be an array, got ", "a reply must be"))
    assert facts(result) | {"rejected": {}} == judged_without(start())


def test_a_mapping_that_cannot_give_one_reply_gives_the_others():
    class Fetching(dict):
        def __getitem__(self, client):
            if client == "dan":
                raise TimeoutError("dan is slow")
            return super().__getitem__(client)

    result = start().settle(updates=Fetching({c: cut(u) for c, u in updates(1).items()}))
    told = "a reply must be arrays that can be read, got TimeoutError: dan is slow"
    assert result.rejected == {"dan": told}


@pytest.mark.parametrize(
    "size", [10**400, -(10**5000), float("inf"), 2**63], ids=["large", "low", "infinite", "first"]
)
def test_a_size_beyond_all_numbers_costs_that_client_its_round(size):
    result = new().settle(updates=updates(1), sizes=dict.fromkeys(CLIENTS, 10) | {"bob": size})
    assert list(result.rejected) == ["bob"]
    assert result.rejected["bob"].startswith("size must be positive and at most 2^63 - 1, got ")
    assert len(result.rejected["bob"]) < 200


@pytest.mark.parametrize("label", [5, None, b"ann", ["ann"]])
def test_a_label_that_is_no_text_is_dropped(label):
    server = new()
    result = server.settle(updates=updates(1), labels={"ann": label, "bob": "Bob"})
    assert result.rejected == {}
    assert {c: t.label for c, t in server.contributions().items() if t.label} == {"bob": "Bob"}


def test_a_client_that_is_refused_and_paid_nevertheless_is_called_by_its_name():
    server = new(reward=PositiveShare(budget=1000, excluded_pay=10))
    sent = updates(1) | {"eve": [np.nan]}
    result = server.settle(updates=sent, labels={"eve": "Eve"})
    assert list(result.rejected) == ["eve"]
    assert result.payments["eve"] == 10
    assert server.contributions()["eve"].label == "Eve"


@pytest.mark.parametrize("what", ["sizes", "labels"])
@pytest.mark.parametrize("told", [np.ones(5), 5, [1, 2], "ann"])
def test_what_clients_say_must_be_a_mapping(what, told):
    server = new()
    with pytest.raises(SettingError, match=f"{what} must be a mapping from client to "):
        server.settle(updates=updates(1), **{what: told})
    assert server.round == 0
