"""Tokens: who may use the service of a job, and as what.

A token's text is shown once, when it is created. The catalog keeps only its SHA-256; the text has 256 random
bits, so it cannot be guessed.

    ana_3f9c2a71_<43 letters>      the first part names the token in lists, the second is the secret
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum

from anabranch.catalog.database import Address, Database, Row, now
from anabranch.model.errors import JobError
from anabranch.model.suggestions import suggestion

PREFIX = "ana"
MAX_OWNER = 100

_SELECT = "SELECT id, owner, role, hash, created, revoked FROM tokens"


class Role(StrEnum):
    """user: its own subscriptions. viewer: sees everything, changes nothing. admin: everything."""

    USER = "user"
    VIEWER = "viewer"
    ADMIN = "admin"


@dataclass(frozen=True)
class Token:
    id: str
    owner: str
    role: Role
    created: str
    revoked: str | None


class Tokens:
    """The tokens in a catalog. May be used from several threads."""

    def __init__(self, address: Address) -> None:
        self._database = Database(address)

    def close(self) -> None:
        self._database.close()

    def create(self, owner: str, role: Role) -> str:
        """Returns a new token's text; it cannot be shown again."""
        if not owner or owner != owner.strip() or len(owner) > MAX_OWNER or not owner.isprintable():
            raise JobError(
                f"an owner cannot be called {owner!r}; the name must be a text of 1 to {MAX_OWNER} "
                "characters without control characters, with no blank at its ends"
            )
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        text = f"{PREFIX}_{id}_{secret}"
        with self._database.writing() as database:
            row = {"id": id, "owner": owner, "role": role.value, "hash": _hash(text), "created": now()}
            database.insert("tokens", [row])
        return text

    def revoke(self, id: str) -> Token:
        """Makes a token useless, from the next request on."""
        tokens = {token.id: token for token in self.all()}
        if id not in tokens:
            raise JobError(f"unknown token {id!r}{suggestion(id, tokens)}; anabranch token list shows them")
        if tokens[id].revoked:
            raise JobError(f"token {id} is revoked already (at {tokens[id].revoked})")
        with self._database.writing() as database:
            database.write("UPDATE tokens SET revoked = ? WHERE id = ?", now(), id)
        return tokens[id]

    def all(self) -> list[Token]:
        return [_token(row) for row in self._database.read(f"{_SELECT} ORDER BY created, id")]

    def exist(self) -> bool:
        """Whether there ever was one: from then on, every request needs one."""
        return self._database.read_value("SELECT id FROM tokens LIMIT 1") is not None

    def known(self, text: str) -> Token | None:
        """Returns the token with this text, None if there is none or it was revoked."""
        _, _, rest = text.partition("_")
        for row in self._database.read(f"{_SELECT} WHERE id = ? AND revoked IS NULL", rest.partition("_")[0]):
            if hmac.compare_digest(row["hash"], _hash(text)):
                return _token(row)
        return None


def _token(row: Row) -> Token:
    return Token(row["id"], row["owner"], Role(row["role"]), row["created"], row["revoked"])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
