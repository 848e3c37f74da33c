"""Tokens: who may use the service of a job, and as what.

In: owners and roles; the text of a token. Out: a token's text, once; later only who it stands for. Never: the
text at rest. What is kept is its SHA-256; the text has 256 random bits, so no guess meets it.

    ana_3f9c2a71_<43 letters>      the first part names the token in lists, the second is the secret
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum

from anabranch.catalog.asking import now
from anabranch.catalog.database import Address, Database
from anabranch.catalog.reading import suggestion
from anabranch.model.errors import JobError

PREFIX = "ana"
MAX_OWNER = 100


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
        """A new token's text; it cannot be shown again."""
        if not owner or owner != owner.strip() or len(owner) > MAX_OWNER or not owner.isprintable():
            raise JobError(
                f"an owner cannot be called {owner!r}; the name must be a text of 1 to {MAX_OWNER} "
                "characters without control characters, with no blank at its ends"
            )
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        text = f"{PREFIX}_{id}_{secret}"
        with self._database.writing() as database:
            values = (id, owner, role.value, _hash(text), now())
            database.write("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, NULL)", *values)
        return text

    def revoke(self, id: str) -> Token:
        """Ends a token, from the next request on."""
        found = {token.id: token for token in self.all()}
        if id not in found:
            raise JobError(f"unknown token {id!r}{suggestion(id, found)}; anabranch token list shows them")
        if found[id].revoked:
            raise JobError(f"token {id} is revoked already (at {found[id].revoked})")
        with self._database.writing() as database:
            database.write("UPDATE tokens SET revoked = ? WHERE id = ?", now(), id)
        return found[id]

    def all(self) -> list[Token]:
        rows = self._database.read(
            "SELECT id, owner, role, created, revoked FROM tokens ORDER BY created, id"
        )
        return [Token(id, owner, Role(role), created, revoked) for id, owner, role, created, revoked in rows]

    def exist(self) -> bool:
        """Whether there ever was one: from then on, every request needs one."""
        return bool(self._database.read("SELECT 1 FROM tokens LIMIT 1"))

    def known(self, text: str) -> Token | None:
        """Whose token this is, if it is one and holds."""
        _, _, rest = text.partition("_")
        rows = self._database.read(
            "SELECT id, owner, role, created, hash FROM tokens WHERE id = ? AND revoked IS NULL",
            rest.partition("_")[0],
        )
        for id, owner, role, created, kept in rows:
            if hmac.compare_digest(kept, _hash(text)):
                return Token(id, owner, Role(role), created, None)
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
