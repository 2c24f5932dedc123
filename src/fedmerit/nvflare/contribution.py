"""One client's reply in FLARE: whose it is, and what is wrong with it."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.client import Client
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.fl_constant import ReturnCode, ServerCommandKey
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants

from fedmerit.errors import InvalidInputError, UpdatesError
from fedmerit.server.layout import Layout, cut_text
from fedmerit.server.replies import check_size, clean
from fedmerit.types import FloatArray


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


def read_contribution(
    shareable: Shareable, layout: Layout, model: FloatArray
) -> tuple[FloatArray, int | None, bool]:
    """Return a reply's update, the steps that its client claims, and whether it sent a model.

    Raises
    ------
    InvalidInputError
        The reply cannot be used; the message says why.
    """
    try:
        code = shareable.get_return_code()
        if code != ReturnCode.OK:
            raise InvalidInputError(clean(f"error: {code}"))
        dxo = from_shareable(shareable)
    except InvalidInputError:
        raise
    except Exception as error:  # whatever FLARE makes of hostile content, it is no contribution
        raise UpdatesError(clean(f"a reply must be a DXO, got {error}")) from None
    kind = dxo.data_kind
    if not isinstance(kind, str) or kind not in (DataKind.WEIGHT_DIFF, DataKind.WEIGHTS):
        kinds = f"{DataKind.WEIGHT_DIFF.value} or {DataKind.WEIGHTS.value}"
        raise UpdatesError(f"a reply must be {kinds}, got {cut_text(kind)}")
    if dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM) is not None:
        raise UpdatesError("arrays must be plain, got encrypted or compressed ones")
    steps = _claimed_steps(dxo)
    start = model if kind == DataKind.WEIGHTS else None
    return _read_arrays(dxo.data, layout, start), steps, kind == DataKind.WEIGHTS


def _claimed_steps(dxo: DXO) -> int | None:
    """Return FLARE's measure of a client's size, which a reply may leave out."""
    steps = dxo.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND)
    if steps is None:
        return None
    plain = steps.item() if isinstance(steps, np.generic) else steps
    size = check_size(MetaKey.NUM_STEPS_CURRENT_ROUND, plain)
    return int(size) if size.is_integer() else None


def _read_arrays(
    sent: Mapping[object, object], layout: Layout, start: FloatArray | None
) -> FloatArray:
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, values in sent.items():
        if not isinstance(name, str):
            raise UpdatesError(f"arrays must have text as names, got {cut_text(name)}")
        if isinstance(values, np.generic):  # what arithmetic makes of an array without dimensions
            values = np.asarray(values)
        if type(values) is not np.ndarray:  # a subclass could compute anything
            raise UpdatesError(f"{name[:40]} must be a NumPy array, got {type(values).__name__}")
        arrays[name] = values

    def read(name: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
        values = arrays[name]
        if values.shape != shape:
            raise UpdatesError(f"{name} must have shape {shape}, got {cut_text(values.shape)}")
        return values.reshape(-1)

    update = np.empty(layout.parameters, dtype=layout.dtype)
    layout.read_update(arrays.keys(), read, start, update)
    return update
