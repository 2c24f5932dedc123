"""Ed25519 signatures over entries, so that only the holder of the key can write a valid chain.

Needs the `ledger` extra. Private keys are PEM files (PKCS 8, not encrypted) readable by their owner
alone; a public key is 32 bytes, shown as hexadecimal.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fedmerit.errors import LedgerError, MissingExtraError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# What is signed is this and the hash of the entry, so that no other signature of the same key can
# be passed off as one of ours.
_CONTEXT = b"fedmerit ledger 1 signature\x00"


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
        """Read a key from a PEM file."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as error:
            raise _needs_cryptography(error) from error
        try:
            key = load_pem_private_key(Path(path).read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise LedgerError(f"cannot read a private key from {path}: {error}") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise LedgerError(f"signing key must be Ed25519, got {type(key).__name__} in {path}")
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

    @property
    def public_key(self) -> bytes:
        """The 32 bytes that verify this key's signatures."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, entry_hash: bytes) -> bytes:
        """Sign the hash of an entry."""
        return self._key.sign(_CONTEXT + entry_hash)


def signature_holds(public_key: bytes, signature: bytes, entry_hash: bytes) -> bool:
    """Whether `signature` was made over `entry_hash` with the private half of `public_key`."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise _needs_cryptography(error) from error
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
        key.verify(signature, _CONTEXT + entry_hash)
    except (InvalidSignature, ValueError):
        return False
    return True
