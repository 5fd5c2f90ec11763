"""A proxy as organisations have them: opens ways to other hosts on CONNECT, for those who may, and notes for whom."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """Who may use it, what it answers where it refuses, where it listens, and what it was asked for."""

    user: str | None = None
    refusal: str | None = None
    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.asked.append(first)
        method, target, _ = first.split()
        given = [line.split(" ")[-1] for line in headers if line.lower().startswith("proxy-authorization:")]
        wanted = [] if self.user is None else [b64encode(self.user.encode()).decode()]
        refusal = self.refusal or ("407 Proxy Authentication Required" if given != wanted else None)
        if method != "CONNECT" or refusal is not None:
            writer.write(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()
            return
        host, port = target.rsplit(":", 1)
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_carry(reader, far_writer), _carry(far_reader, writer))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._one, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
