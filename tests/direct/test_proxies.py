"""A member behind its organisation's proxy: the way through it, and what is said where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from direct.proxies import Proxy
from direct.streams import Consortium, make_consortium
from fheval.direct.relay import proxy_for
from fheval.errors import ConfigError

NAMED = ("https_proxy", "HTTPS_PROXY")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Consortium]:
    for name in (*NAMED, "http_proxy", "HTTP_PROXY", "grpc_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    tmp_path.chmod(0o700)
    consortium = make_consortium(tmp_path)
    with consortium.vault("alder"):
        yield consortium


def answers_through(made: Consortium, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, **environment: str) -> bool:
    """Whether alder's vault is reached while the environment says this; {port} stands for the proxy's."""

    async def play() -> bool:
        async with proxy.serving(), made.hub() as (hub, port):
            for name, value in environment.items():
                monkeypatch.setenv(name, value.format(port=proxy.port))
            async with made.relays(port, ("alder",)):
                return bool(await hub.exchange(made.exchange(names=("alder",)), 3.0))

    return asyncio.run(play())


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("value", ["http://127.0.0.1:{port}", "127.0.0.1:{port}"])
def test_the_relay_goes_through_the_proxy(
    made: Consortium, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    proxy = Proxy()
    assert answers_through(made, proxy, monkeypatch, **{name: value})
    (asked,) = proxy.asked
    assert asked.startswith("CONNECT 127.0.0.1:")


def test_it_says_who_it_is_where_the_proxy_asks(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    there = "http://ward:se%20sam@127.0.0.1:{port}"
    assert answers_through(made, Proxy(user="ward:se sam"), monkeypatch, https_proxy=there)
    assert not answers_through(made, Proxy(user="ward:other"), monkeypatch, https_proxy=there)
    said = "\n".join(made.said["alder"])
    assert "407 Proxy Authentication Required" in said
    assert "sam" not in said


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_not_for_a_hub_that_is_excepted(made: Consortium, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    proxy = Proxy()
    excepted = {"https_proxy": "http://127.0.0.1:{port}", name: "127.0.0.1,example.org"}
    assert answers_through(made, proxy, monkeypatch, **excepted)
    assert not proxy.asked


def test_a_proxy_that_opens_no_way_is_named_with_its_words(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(refusal="403 Not on the list")
    assert not answers_through(made, proxy, monkeypatch, https_proxy="http://127.0.0.1:{port}")
    assert f"through the proxy 127.0.0.1:{proxy.port}" in made.said["alder"][0]
    assert "403 Not on the list" in made.said["alder"][0]


def test_a_proxy_that_is_down_is_named(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not answers_through(made, Proxy(), monkeypatch, https_proxy="http://127.0.0.1:1")
    assert "through the proxy 127.0.0.1:1 (Connection refused)" in made.said["alder"][0]


def test_a_wrong_name_is_told_through_a_proxy_as_well(made: Consortium, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> str:
        proxy = Proxy()
        async with proxy.serving(), made.hub() as (_, port):
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.port}")
            return await asyncio.to_thread(made.relay("alder", port, host="localhost")._why_not)

    assert "certificate for 127.0.0.1, and not for localhost" in asyncio.run(play())


@pytest.mark.parametrize("value", ["https://proxy:3128", "socks5://proxy:1080", "http://proxy", "http://proxy:port"])
def test_what_is_no_proxy_is_refused_at_once(made: Consortium, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("https_proxy", value)
    with pytest.raises(ConfigError, match="http://HOST:PORT"):
        made.relay("alder", 9092)
    monkeypatch.setenv("no_proxy", "hub.example.org")
    assert proxy_for("hub.example.org:9092") is None
