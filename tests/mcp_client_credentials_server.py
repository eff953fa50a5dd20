"""An authorization server for programs that authenticate with a secret or a signing key."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.mcp_auth_server import AuthorizationServer

CLIENT_ID = "ci"
SECRET = "s3cret: of+ci"
KEY_FACTORIES: dict[str, Callable[[], Any]] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


@dataclass(frozen=True)
class Key:
    """A private key and its public key, both as PEM."""

    private: str = field(repr=False)
    public: str
    algorithm: str


def new_key(algorithm: str = "ES256", password: str = "") -> Key:
    """Generate a key."""
    key = KEY_FACTORIES[algorithm]()
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else None
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return Key(private.decode(), public.decode(), algorithm)


@dataclass
class ClientCredentialsServer(AuthorizationServer):
    """An authorization server that knows one program."""

    key: Key | None = None
    """The key of the program, or None if it has a secret."""
    auth_method: str = "client_secret_basic"
    """The method of authentication."""
    status: int = 200
    """The status of all responses."""
    token_requests: list[dict[str, str]] = field(default_factory=list)
    """The form and the authorization of each token request."""

    def routes(self) -> list[Route]:
        return [
            Route("/token", self.token, methods=["POST"]),
            Route("/.well-known/oauth-authorization-server", self.metadata),
        ]

    async def metadata(self, _: Request) -> Response:
        """Return the metadata of the server."""
        return JSONResponse(
            {
                "issuer": f"{self.base}/",
                "authorization_endpoint": f"{self.base}/authorize",
                "token_endpoint": f"{self.base}/token",
                "token_endpoint_auth_methods_supported": [self.auth_method],
            }
        )

    async def token(self, request: Request) -> Response:
        """Respond to a token request."""
        form = {name: str(value) for name, value in (await request.form()).items()}
        authorization = request.headers.get("authorization", "")
        self.token_requests.append({**form, "authorization": authorization})
        if self.status != 200:
            error = {
                "error": "temporarily_unavailable",
                "error_description": f"{SECRET}{authorization}",
            }
            return JSONResponse(error, self.status)
        if form.get("grant_type") != "client_credentials" or not self._knows(form, authorization):
            return JSONResponse(
                {"error": "invalid_client", "error_description": authorization}, 401
            )
        tokens = self.issue_tokens(CLIENT_ID, form.get("scope", "read").split())
        return JSONResponse(tokens.model_dump(exclude={"refresh_token"}))

    def _knows(self, form: dict[str, str], authorization: str) -> bool:
        if self.key is None and self.auth_method == "client_secret_post":
            return (form.get("client_id"), form.get("client_secret"), authorization) == (
                CLIENT_ID,
                SECRET,
                "",
            )
        if self.key is None:
            name, _, secret = (
                b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
            )
            return (unquote(name), unquote(secret)) == (CLIENT_ID, SECRET)
        try:
            claims = jwt.decode(
                form["client_assertion"],
                self.key.public,
                algorithms=[self.key.algorithm],
                audience=[self.base, f"{self.base}/"],
                options={"require": ["exp", "jti", "iat"]},
            )
        except jwt.PyJWTError:
            return False
        return (claims["iss"], claims["sub"]) == (CLIENT_ID, CLIENT_ID) and "client_id" not in form
