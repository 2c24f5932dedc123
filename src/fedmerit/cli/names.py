"""Names that commands take: known without loading what they name.

A test compares them with the registries.
"""

from collections.abc import Collection

from fedmerit.errors import UnknownNameError

EXPERIMENTS = {
    "mnist-free-riders": "accuracy as more users send random updates",
    "mnist-noise": "accuracy and weight as users add noise",
    "mnist-honest": "accuracy where everybody is honest",
    "mnist-random-models": "free riders whose models, not updates, are noise",
    "din-free-riders-harm": "a recommender (DIN) as free riders join",
    "din-noise-harm": "the same as users add noise",
    "din-weights": "the weight of riders, noise and replays in it",
    "din-aggregators": "ways to aggregate it",
    "din-labels": "the same as users flip labels",
    "assumptions": "are signals of two parameters independent?",
}
BENCHMARKS = {
    "attacks": "what does every behaviour earn?",
    "contribution": "do scores rank clients by what they brought?",
    "free-riders": "TU Wien's detection benchmark",
    "models": "does the default hold on models nobody tuned it on?",
    "null": "how often are clients without work accepted?",
}
DATASETS = {
    "digits": "8 x 8 handwritten digits, nothing to fetch",
    "mnist": "28 x 28 handwritten digits",
    "fashion-mnist": "28 x 28 pictures of clothes",
    "clicks": "a generated click log, nothing to fetch",
    "kuairand": "KuaiRand-Pure, a click log",
    "movielens-1m": "MovieLens 1M as a click log",
    "taobao-userbehavior": "Taobao UserBehavior, a click log",
    "ali-display-ads": "Ali_Display_Ad_Click, a click log",
}
# Of these data sets, those of pictures.
PICTURES = ("digits", "mnist", "fashion-mnist")
# Those that a benchmark runs on.
BENCHMARKED = ("mnist", "digits")
# Tasks of the benchmark of models.
TASKS = (
    *("batch-norm", "transformer", "lora", "din", "logistic-31", "logistic-62", "logistic-wine"),
    *("logistic-digits", "mlp-cancer", "mlp-digits", "unequal", "identical", "residual", "vision"),
)


def check_name(name: str | None, known: Collection[str]) -> str:
    """Return `name`, the argument of a command, if it is one of the `known`."""
    if name is None:
        raise UnknownNameError(f"NAME must be one of {', '.join(sorted(known))}, got none")
    if name not in known:
        raise UnknownNameError.of("NAME", name, known)
    return name
