"""Ed25519 signatures over entries, so that only the holder of the key can write a valid chain.

Needs the `ledger` extra. Private keys are PEM files (PKCS 8, not encrypted) readable by their owner
alone; a public key is 32 bytes, shown as hexadecimal.
"""

import os
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit.disk.files import names_to_disk, read_at_most
from fedmerit.errors import LedgerError, MissingExtraError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# What is signed begins with what it is, so that no other signature of the same key can be passed
# off as one of ours: the hash of an entry (before version 4), a head, or what a witness has seen.
ENTRY = b"fedmerit ledger 1 signature\x00"
HEAD = b"fedmerit ledger 4 head\x00"
WITNESS = b"fedmerit witness 1 head\x00"
KEY_BYTES = 32
_MOST_BYTES = 10_000  # of a file with a key


def _needs_cryptography(error: ImportError) -> MissingExtraError:
    return MissingExtraError(
        "signed ledgers need the package 'cryptography': pip install 'fedmerit[ledger]'",
        name=error.name,
    )


class SigningKey:
    """A private key that signs ledger entries."""

    def __init__(self, key: "Ed25519PrivateKey") -> None:
        self._key = key

    @classmethod
    def generate(cls) -> "SigningKey":
        """Draw a new key."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise _needs_cryptography(error) from error
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | Path) -> "SigningKey":
        """Read a key from a PEM file; warn if others on the machine may read it too."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as error:
            raise _needs_cryptography(error) from error
        try:
            content = read_at_most(Path(path), _MOST_BYTES)
            mode = Path(path).stat().st_mode
            key = load_pem_private_key(content, password=None)
        except (OSError, ValueError, TypeError) as error:
            raise LedgerError(f"cannot read a private key from {path}: {error}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise LedgerError(f"signing key must be Ed25519, got {type(key).__name__} in {path}")
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.warn(
                f"{path} must be readable by its owner only, got mode {stat.S_IMODE(mode):o}: "
                "whoever can read it can sign in your name (chmod 600)",
                stacklevel=2,
            )
        return cls(key)

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner may read."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise LedgerError(f"cannot write a new key to {path}: {error.strerror}") from error
        with os.fdopen(handle, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())  # what it signs is on the disk at once, so the key must be
        names_to_disk(Path(path).parent)

    @property
    def public_key(self) -> bytes:
        """The 32 bytes that verify this key's signatures."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes, context: bytes) -> bytes:
        """Sign a message as what `context` says it is."""
        return self._key.sign(context + message)


def signature_holds(public_key: bytes, signature: bytes, message: bytes, context: bytes) -> bool:
    """Whether `signature` was made over `message` with the private half of `public_key`."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise _needs_cryptography(error) from error
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(signature, context + message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def parse_key(text: str) -> bytes:
    """Turn the 64 hexadecimal digits of a public key into bytes."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"public key must be 64 hexadecimal digits, got {text!r}")
    return key
