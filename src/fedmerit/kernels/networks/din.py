"""Deep Interest Network: logits, and every SGD step of one client.

The activation unit sees ``[q, k, q - k, q * k]`` for the candidate q and each liked item k. Its
first layer is linear in these, so with its weights in four blocks
``z = q (Wq + Wd) + k (Wk - Wd) + (q * k) Wp + b``: the first term once per sample, and half of the
products are left for each liked item. Weights lie as (inputs, units), so that the innermost loops
run over units and are vectorised without fast-math; for the way back the two blocks in use are kept
transposed as well. A step touches only the rows of embeddings that it looks up.

All that is not an embedding comes as one vector, `dense`, in the order of `split_dense`; sizes are
``shape = (E, C, A, U, V)``: embedding, context columns, units of the activation unit and of the two
layers. A row of ``x`` is item, C contexts, liked items (0: none).
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
Shape = tuple[int, int, int, int, int]
_ZERO = np.float32(0)
_ONE = np.float32(1)


@njit(cache=True, nogil=True, error_model="numpy")
def split_dense(dense: Floats, shape: Shape) -> tuple[Floats, ...]:
    """View the vector as the weights, bias and PReLU slope of each layer."""
    size, columns, units, wide, narrow = shape
    inputs = (4 + columns) * size
    a = 8 * size * units
    b = a + units
    c = b + 1
    d = c + units
    e = d + 1
    f = e + inputs * wide
    g = f + wide
    h = g + 1
    i = h + wide * narrow
    j = i + narrow
    k = j + 1
    m = k + narrow
    return (
        dense[:a].reshape(8 * size, units),
        dense[a:b],
        dense[b:c],
        dense[c:d],
        dense[d:e],
        dense[e:f].reshape(inputs, wide),
        dense[f:g],
        dense[g:h],
        dense[h:i].reshape(wide, narrow),
        dense[i:j],
        dense[j:k],
        dense[k:m],
        dense[m : m + 1],
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _fold(
    att: Floats, own: Floats, near: Floats, product: Floats, near_t: Floats, product_t: Floats
) -> None:
    """Fold the four blocks of the activation unit's first layer into three."""
    width, units = own.shape
    for i in range(width):
        for a in range(units):
            difference = att[2 * width + i, a]
            own[i, a] = att[i, a] + difference
            near[i, a] = att[width + i, a] - difference
            product[i, a] = att[3 * width + i, a]
            near_t[a, i] = near[i, a]
            product_t[a, i] = product[i, a]


@njit(cache=True, nogil=True, error_model="numpy")
def _look_up(
    row: Indices,
    items: Floats,
    groups: Floats,
    group_of: Indices,
    places: Floats,
    columns: int,
    into: Floats,
) -> None:
    """Write candidate, room for the history, and contexts into the first layer's input."""
    size = items.shape[1]
    item = row[0]
    for e in range(size):
        into[e] = items[item, e]
        into[size + e] = groups[group_of[item], e]
        into[2 * size + e] = _ZERO
        into[3 * size + e] = _ZERO
    for c in range(columns):
        for e in range(size):
            into[(4 + c) * size + e] = places[row[1 + c], e]


@njit(cache=True, nogil=True, error_model="numpy")
def _attend(
    liked: Indices,
    items: Floats,
    groups: Floats,
    group_of: Indices,
    own: Floats,
    near: Floats,
    product: Floats,
    bias: Floats,
    slope: np.float32,
    last: Floats,
    last_bias: np.float32,
    inputs: Floats,
    keys: Floats,
    sums: Floats,
    given: Floats,
    base: Floats,
) -> None:
    """Weigh the history by the activation unit and add it up into `inputs`.

    `keys` (H, D), `sums` (H, A) and `given` (H,) keep what the way back needs: embeddings, the
    unit's sums, and the weights.
    """
    size = items.shape[1]
    width, units = own.shape
    for a in range(units):
        base[a] = bias[a]
    for i in range(width):
        q = inputs[i]
        for a in range(units):
            base[a] += q * own[i, a]
    for j in range(len(liked)):
        item = liked[j]
        if item == 0:
            continue
        key, z = keys[j], sums[j]
        for e in range(size):
            key[e] = items[item, e]
            key[size + e] = groups[group_of[item], e]
        for a in range(units):
            z[a] = base[a]
        for i in range(width):
            k = key[i]
            qk = k * inputs[i]
            for a in range(units):
                z[a] += k * near[i, a] + qk * product[i, a]
        weight = last_bias
        for a in range(units):
            value = z[a]
            weight += (value if value > _ZERO else slope * value) * last[a]
        given[j] = weight
        for i in range(width):
            inputs[width + i] += weight * key[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _layer(
    x: Floats, weights: Floats, bias: Floats, slope: np.float32, z: Floats, out: Floats
) -> None:
    """Compute the sums of one layer and bend them (PReLU)."""
    for j in range(len(bias)):
        z[j] = bias[j]
    for i in range(len(x)):
        value = x[i]
        for j in range(len(bias)):
            z[j] += value * weights[i, j]
    for j in range(len(bias)):
        out[j] = z[j] if z[j] > _ZERO else slope * z[j]


@njit(cache=True, nogil=True, error_model="numpy")
def _back_layer(
    delta: Floats,
    z: Floats,
    x: Floats,
    weights: Floats,
    slope: np.float32,
    g_weights: Floats,
    g_bias: Floats,
    g_slope: Floats,
    dx: Floats,
) -> None:
    """Take `delta` back through one layer: add its gradients, write what goes to its input."""
    for j in range(len(delta)):
        if z[j] <= _ZERO:
            g_slope[0] += delta[j] * z[j]
            delta[j] *= slope
        g_bias[j] += delta[j]
    for i in range(len(x)):
        value, total = x[i], _ZERO
        for j in range(len(delta)):
            g_weights[i, j] += value * delta[j]
        for j in range(len(delta)):
            total += weights[i, j] * delta[j]
        dx[i] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _back_history(
    liked: Indices,
    group_of: Indices,
    near_t: Floats,
    product_t: Floats,
    slope: np.float32,
    last: Floats,
    keys: Floats,
    sums: Floats,
    given: Floats,
    inputs: Floats,
    dinputs: Floats,
    g_items: Floats,
    g_groups: Floats,
    g_att: Floats,
    g_slope: Floats,
    g_last: Floats,
    g_last_bias: Floats,
    dz_sum: Floats,
) -> None:
    """Take the history's part of `dinputs` back to embeddings and activation unit."""
    width, units = near_t.shape[1], near_t.shape[0]
    size = width // 2
    dz = np.empty(units, np.float32)
    dkey, dproduct = np.empty(width, np.float32), np.empty(width, np.float32)
    dz_sum[:] = _ZERO
    for j in range(len(liked)):
        item = liked[j]
        if item == 0:
            continue
        key, z = keys[j], sums[j]
        dweight = _ZERO
        for i in range(width):
            dweight += dinputs[width + i] * key[i]
        g_last_bias[0] += dweight
        for a in range(units):
            value = z[a]
            dz[a] = dweight * last[a]
            if value > _ZERO:
                g_last[a] += dweight * value
            else:
                g_last[a] += dweight * slope * value
                g_slope[0] += dz[a] * value
                dz[a] *= slope
        for i in range(width):
            dkey[i] = given[j] * dinputs[width + i]
            dproduct[i] = _ZERO
        for a in range(units):
            back = dz[a]
            dz_sum[a] += back
            for i in range(width):
                dkey[i] += back * near_t[a, i]
                dproduct[i] += back * product_t[a, i]
        for i in range(width):
            k = key[i]
            qk = k * inputs[i]
            for a in range(units):
                g_att[width + i, a] += k * dz[a]
                g_att[3 * width + i, a] += qk * dz[a]
            dkey[i] += inputs[i] * dproduct[i]
            dinputs[i] += k * dproduct[i]
        group = group_of[item]
        for e in range(size):
            g_items[item, e] += dkey[e]
            g_groups[group, e] += dkey[size + e]


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(
    values: Floats, velocity: Floats, gradient: Floats, rate: np.float32, momentum: np.float32
) -> None:
    """Take one step of SGD and clear the gradient."""
    for i in range(len(values)):
        velocity[i] = momentum * velocity[i] + gradient[i]
        values[i] -= rate * velocity[i]
        gradient[i] = _ZERO


@njit(cache=True, nogil=True, error_model="numpy")
def _descend_rows(
    table: Floats,
    velocity: Floats,
    gradient: Floats,
    touched: Indices,
    rate: np.float32,
    momentum: np.float32,
) -> None:
    """Take one step of SGD on a table; without momentum only looked-up rows move."""
    if momentum > _ZERO:
        _descend(table.ravel(), velocity.ravel(), gradient.ravel(), rate, momentum)
    else:
        for row in touched:
            _descend(table[row], velocity[row], gradient[row], rate, momentum)


@njit(cache=True, nogil=True, error_model="numpy")
def din_logits(
    items: Floats,
    groups: Floats,
    places: Floats,
    dense: Floats,
    shape: Shape,
    x: Indices,
    group_of: Indices,
    logits: Floats,
) -> None:
    """Fill `logits` (n,) for the rows of `x`."""
    size, columns, units, wide, narrow = shape
    (att, att_bias, att_slope, att_last, att_last_bias) = split_dense(dense, shape)[:5]
    (first, first_bias, first_slope, second, second_bias, second_slope, last, last_bias) = (
        split_dense(dense, shape)[5:]
    )
    width, history = 2 * size, x.shape[1] - 1 - columns
    own, near = np.empty((width, units), np.float32), np.empty((width, units), np.float32)
    product = np.empty((width, units), np.float32)
    near_t, product_t = np.empty((units, width), np.float32), np.empty((units, width), np.float32)
    _fold(att, own, near, product, near_t, product_t)
    keys, sums = np.empty((history, width), np.float32), np.empty((history, units), np.float32)
    given, base = np.empty(history, np.float32), np.empty(units, np.float32)
    inputs = np.empty(len(first), np.float32)
    z1, h1 = np.empty(wide, np.float32), np.empty(wide, np.float32)
    z2, h2 = np.empty(narrow, np.float32), np.empty(narrow, np.float32)
    for n in range(len(x)):
        _look_up(x[n], items, groups, group_of, places, columns, inputs)
        _attend(
            *(x[n][1 + columns :], items, groups, group_of, own, near, product, att_bias),
            *(att_slope[0], att_last, att_last_bias[0], inputs, keys, sums, given, base),
        )
        _layer(inputs, first, first_bias, first_slope[0], z1, h1)
        _layer(h1, second, second_bias, second_slope[0], z2, h2)
        total = last_bias[0]
        for j in range(narrow):
            total += h2[j] * last[j]
        logits[n] = total


@njit(cache=True, nogil=True, error_model="numpy")
def train_din(
    items: Floats,
    groups: Floats,
    places: Floats,
    dense: Floats,
    shape: Shape,
    x: Indices,
    group_of: Indices,
    y: Indices,
    indices: Indices,
    weights: Floats,
    rate: np.float32,
    momentum: np.float32,
) -> None:
    """Train in place by SGD on binary cross entropy.

    Parameters
    ----------
    items, groups, places : (rows, E) float32
        Embeddings of items (row 0: no item), categories and contexts.
    dense, shape
        All other parameters, and the sizes; see above.
    x, group_of, y : (samples, 1 + C + H), (items,), (samples,) int64
    indices, weights : (steps, b)
        The samples of each step and their shares in its loss.
    """
    size, columns, units, wide, narrow = shape
    steps, batch = indices.shape
    width, history = 2 * size, x.shape[1] - 1 - columns
    g_dense, v_dense = np.zeros_like(dense), np.zeros_like(dense)
    (att, att_bias, att_slope, att_last, att_last_bias) = split_dense(dense, shape)[:5]
    (first, first_bias, first_slope, second, second_bias, second_slope, last, last_bias) = (
        split_dense(dense, shape)[5:]
    )
    (g_att, g_att_bias, g_att_slope, g_att_last, g_att_last_bias) = split_dense(g_dense, shape)[:5]
    (g_first, g_first_bias, g_first_slope, g_second, g_second_bias, g_second_slope) = split_dense(
        g_dense, shape
    )[5:11]
    g_last, g_last_bias = split_dense(g_dense, shape)[11:]
    g_items, v_items = np.zeros_like(items), np.zeros_like(items)
    g_groups, v_groups = np.zeros_like(groups), np.zeros_like(groups)
    g_places, v_places = np.zeros_like(places), np.zeros_like(places)

    own, near = np.empty((width, units), np.float32), np.empty((width, units), np.float32)
    product = np.empty((width, units), np.float32)
    near_t, product_t = np.empty((units, width), np.float32), np.empty((units, width), np.float32)
    keys, sums = np.empty((history, width), np.float32), np.empty((history, units), np.float32)
    given, base = np.empty(history, np.float32), np.empty(units, np.float32)
    dz_sum = np.empty(units, np.float32)
    inputs, dinputs = np.empty(len(first), np.float32), np.empty(len(first), np.float32)
    z1, h1, d1 = np.empty(wide, np.float32), np.empty(wide, np.float32), np.empty(wide, np.float32)
    z2, h2, d2 = np.empty(narrow, np.float32), np.empty(narrow, np.float32), np.empty_like(last)
    touched_items = np.empty(batch * (history + 1), np.int64)
    touched_groups = np.empty(batch * (history + 1), np.int64)
    touched_places = np.empty(batch * columns, np.int64)

    for step in range(steps):
        _fold(att, own, near, product, near_t, product_t)
        looked_up, seen = 0, 0
        for b in range(batch):
            share = weights[step, b]
            if share == _ZERO:
                continue
            row = x[indices[step, b]]
            liked = row[1 + columns :]
            _look_up(row, items, groups, group_of, places, columns, inputs)
            _attend(
                *(liked, items, groups, group_of, own, near, product, att_bias, att_slope[0]),
                *(att_last, att_last_bias[0], inputs, keys, sums, given, base),
            )
            _layer(inputs, first, first_bias, first_slope[0], z1, h1)
            _layer(h1, second, second_bias, second_slope[0], z2, h2)
            total = last_bias[0]
            for j in range(narrow):
                total += h2[j] * last[j]
            error = (_ONE / (_ONE + np.exp(-total)) - np.float32(y[indices[step, b]])) * share

            g_last_bias[0] += error
            for j in range(narrow):
                g_last[j] += error * h2[j]
                d2[j] = error * last[j]
            _back_layer(
                *(d2, z2, h1, second, second_slope[0]),
                *(g_second, g_second_bias, g_second_slope, d1),
            )
            _back_layer(
                *(d1, z1, inputs, first, first_slope[0]),
                *(g_first, g_first_bias, g_first_slope, dinputs),
            )
            _back_history(
                *(liked, group_of, near_t, product_t, att_slope[0], att_last, keys, sums, given),
                *(inputs, dinputs, g_items, g_groups, g_att, g_att_slope, g_att_last),
                *(g_att_last_bias, dz_sum),
            )
            for i in range(width):
                q, total = inputs[i], _ZERO
                for a in range(units):
                    g_att[i, a] += q * dz_sum[a]
                    total += own[i, a] * dz_sum[a]
                dinputs[i] += total
            for a in range(units):
                g_att_bias[a] += dz_sum[a]

            group = group_of[row[0]]
            for e in range(size):
                g_items[row[0], e] += dinputs[e]
                g_groups[group, e] += dinputs[size + e]
            touched_items[looked_up] = row[0]
            touched_groups[looked_up] = group
            looked_up += 1
            for item in liked:
                if item != 0:
                    touched_items[looked_up] = item
                    touched_groups[looked_up] = group_of[item]
                    looked_up += 1
            for c in range(columns):
                for e in range(size):
                    g_places[row[1 + c], e] += dinputs[(4 + c) * size + e]
                touched_places[seen] = row[1 + c]
                seen += 1

        # The difference block sees q - k: its gradient is that of q's block minus that of k's.
        for i in range(width):
            for a in range(units):
                g_att[2 * width + i, a] = g_att[i, a] - g_att[width + i, a]
        _descend_rows(items, v_items, g_items, touched_items[:looked_up], rate, momentum)
        _descend_rows(groups, v_groups, g_groups, touched_groups[:looked_up], rate, momentum)
        _descend_rows(places, v_places, g_places, touched_places[:seen], rate, momentum)
        _descend(dense, v_dense, g_dense, rate, momentum)
