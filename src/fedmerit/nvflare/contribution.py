"""One client's reply in FLARE: whose it is, and what is wrong with it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.client import Client
from nvflare.apis.dxo import DataKind, MetaKey, from_shareable
from nvflare.apis.fl_constant import ReturnCode, ServerCommandKey
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants

from fedmerit.errors import Fault, InvalidInputError, Rule, UpdatesError
from fedmerit.server.layout import Layout, other_shape
from fedmerit.server.replies import check_size, clean, cut_text, read_update
from fedmerit.types import FloatArray


class Reply(NamedTuple):
    """What a client sent: its update, its claimed steps, whether it was a model, its metrics."""

    update: FloatArray
    steps: float | None
    whole: bool
    metrics: Mapping[str, object] | None


def sender(shareable: Shareable) -> str:
    """Return the name of the client that sent a reply.

    The server puts it there after it checked the client's token. The name in the peer's context is
    what the client says of itself.
    """
    client = shareable.get_header(ServerCommandKey.FL_CLIENT)
    if not isinstance(client, Client):
        raise InvalidInputError(f"a reply must come from a registered client, got {client!r}"[:200])
    return str(client.name)


def answers(shareable: Shareable, number: int) -> bool:
    """Return whether a reply says that it belongs to round `number`."""
    cookies = shareable.get_cookie_jar()
    told = cookies.get(AppConstants.CONTRIBUTION_ROUND) if isinstance(cookies, dict) else None
    return isinstance(told, int) and told == number


def named(model: FLModel) -> str:
    """Return the name of the client that sent a model, as the `FedAvg` controller wrote it."""
    name = (model.meta or {}).get("client_name")
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"a reply must name its client, got {name!r}"[:200])
    return name


def read_shareable(shareable: Shareable, layout: Layout, start: FloatArray) -> Reply:
    """Read a reply as `ScatterAndGather` gets it; `start` is the model it was asked with.

    Raises
    ------
    InvalidInputError
        The reply cannot be used; the message says why.
    """
    try:
        code = shareable.get_return_code()
        if code != ReturnCode.OK:
            text = clean(f"error: {code}")
            raise InvalidInputError(text, fault=Fault(Rule.WORK, (cut_text(code),)))
        dxo = from_shareable(shareable)
    except InvalidInputError:
        raise
    except Exception as error:  # whatever FLARE makes of hostile content, it is no contribution
        text = clean(f"a reply must be a DXO, got {error}")
        raise UpdatesError(text, fault=Fault(Rule.FORM, (clean(str(error)),))) from None
    kind = dxo.data_kind
    if not isinstance(kind, str) or kind not in (DataKind.WEIGHT_DIFF, DataKind.WEIGHTS):
        kinds = f"{DataKind.WEIGHT_DIFF.value} or {DataKind.WEIGHTS.value}"
        raise _other_form(f"a reply must be {kinds}", kind)
    return _read(dxo.data, dxo.meta, kind == DataKind.WEIGHTS, None, layout, start)


def read_model(model: FLModel, layout: Layout, start: FloatArray) -> Reply:
    """Read a reply as the `FedAvg` controller gets it; `start` is the model it was asked with.

    Raises
    ------
    InvalidInputError
        The reply cannot be used; the message says why.
    """
    if model.params_type not in (ParamsType.DIFF, ParamsType.FULL):
        raise _other_form("a reply must be DIFF or FULL", model.params_type)
    whole = model.params_type == ParamsType.FULL
    return _read(model.params, model.meta or {}, whole, model.metrics, layout, start)


def _read(
    sent: object,
    meta: Mapping[str, object],
    whole: bool,
    metrics: object,
    layout: Layout,
    start: FloatArray,
) -> Reply:
    if not isinstance(sent, Mapping):
        raise _other_form("a reply must hold arrays by name", sent)
    if meta.get(MetaKey.PROCESSED_ALGORITHM) is not None:
        raise _other_form("arrays must be plain", "encrypted or compressed ones")
    steps = _claimed(meta.get(MetaKey.NUM_STEPS_CURRENT_ROUND))
    update = _read_arrays(sent, layout, start if whole else None)
    return Reply(update, steps, whole, metrics if isinstance(metrics, Mapping) else None)


def _other_form(rule: str, found: object) -> UpdatesError:
    """Return the refusal of what is not made as replies are."""
    got = cut_text(found)
    return UpdatesError(f"{rule}, got {got}", fault=Fault(Rule.FORM, (got,)))


def _claimed(steps: object) -> float | None:
    """Return FLARE's measure of a client's size, which a reply may leave out."""
    if steps is None:
        return None
    plain = steps.item() if isinstance(steps, np.generic) else steps
    return check_size(MetaKey.NUM_STEPS_CURRENT_ROUND, plain)


def _read_arrays(
    sent: Mapping[object, object], layout: Layout, start: FloatArray | None
) -> FloatArray:
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, values in sent.items():
        if not isinstance(name, str):
            raise _other_form("arrays must have text as names", name)
        if isinstance(values, np.generic):  # what arithmetic makes of an array without dimensions
            values = np.asarray(values)
        if type(values) is not np.ndarray:  # a subclass could compute anything
            raise _other_form(f"{name[:40]} must be a NumPy array", type(values).__name__)
        arrays[name] = values

    def read(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
        values = arrays[name]
        if values.shape != shape:
            raise other_shape(name, shape, cut_text(values.shape))
        return values.reshape(-1)

    update = np.empty(layout.parameters, dtype=layout.dtype)
    read_update(layout, arrays.keys(), read, start, update)
    return update


def mean_metrics(
    reported: Iterable[tuple[float, Mapping[str, object] | None]],
) -> dict[str, float] | None:
    """Return the weighted mean of what clients report of the global model, as FedAvg does.

    Each mean is over those who have weight and report a finite number under that name, so that
    nobody can take a metric from the others.
    """
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    for weight, metrics in reported:
        for name, value in (metrics or {}).items():
            number = _number(value)
            if weight > 0 and isinstance(name, str) and number is not None:
                sums[name] = sums.get(name, 0.0) + weight * number
                weights[name] = weights.get(name, 0.0) + weight
    return {name: sums[name] / weights[name] for name in sums} or None


def _number(value: object) -> float | None:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, int | float) or not abs(plain) < 1e300:  # sums of them stay finite
        return None
    return float(plain)
