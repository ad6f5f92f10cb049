"""What the gateway keeps: the same in a file and in a real Redis."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.conftest import PATIENCE
from tests.gateway.redis_server import RedisServer, redis_server
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.redis_store import RedisStore
from vibe_jupyter.gateway.store import SqliteStore, Store, StoreDown

pytestmark = pytest.mark.xdist_group("gateway stores")

LONG = 60.0
"""Seconds that no test takes."""

Pair = tuple[Store, Store]
"""Those of two workers of one gateway."""


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "redis"])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    opened: Callable[[], Store]
    if request.param == "sqlite":
        opened = lambda: SqliteStore(tmp_path / "state.db")  # noqa: E731
    else:
        server: RedisServer = request.getfixturevalue("redis")
        server.clear()
        opened = lambda: RedisStore(server.url)  # noqa: E731
    stores = opened(), opened()
    yield stores
    for one in stores:
        await one.close()


async def test_what_one_worker_writes_another_reads_as_it_was(pair: Pair) -> None:
    one, other = pair
    value = bytes(range(256))
    await one.put("files", "me:a", value, seconds=LONG)
    assert await other.get("files", "me:a") == value
    assert await other.get("sessions", "me:a") is None
    assert await other.get("files", "me:b") is None

    await other.put("files", "me:a", b"", seconds=LONG)
    assert await one.get("files", "me:a") == b""


async def test_an_entry_whose_time_is_over_is_not_there(pair: Pair) -> None:
    one, other = pair
    await one.put("files", "me:a", b"1", seconds=0.01)
    async with asyncio.timeout(PATIENCE):
        while await other.get("files", "me:a") is not None:
            await asyncio.sleep(0.01)
    assert await other.keys("files", "me") == []
    assert await other.take("files", "me:a") is None
    assert await other.add("files", "me:a", b"2", seconds=LONG)
    assert await one.get("files", "me:a") == b"2"


async def test_of_several_who_add_an_entry_one_does(pair: Pair) -> None:
    added = await asyncio.gather(*(pair[n % 2].add("answers", "me:a", b"%d" % n, seconds=LONG) for n in range(16)))
    assert added.count(True) == 1
    assert await pair[0].get("answers", "me:a") == b"%d" % added.index(True)


async def test_of_several_who_take_an_entry_one_gets_it(pair: Pair) -> None:
    await pair[0].put("answers", "me:a", b"yes", seconds=LONG)
    taken = await asyncio.gather(*(pair[n % 2].take("answers", "me:a") for n in range(16)))
    assert sorted(taken, key=lambda one: one is None) == [b"yes", *[None] * 15]
    assert await pair[1].keys("answers", "me") == []


async def test_the_keys_of_a_group_are_listed_the_oldest_first(pair: Pair) -> None:
    one, other = pair
    for store, key in ((one, "me:c"), (other, "me:a"), (one, "me:b"), (one, "me:a:x"), (one, "mee:a"), (one, "m:a")):
        await store.put("files", key, b"1", seconds=LONG)
    await one.put("skills", "me:d", b"1", seconds=LONG)
    assert await other.keys("files", "me") == ["me:c", "me:a", "me:b"]
    assert await other.keys("files", "me:a") == ["me:a:x"]

    await one.put("files", "me:c", b"2", seconds=LONG)
    await other.take("files", "me:a")
    assert await one.keys("files", "me") == ["me:b", "me:c"]
    assert await one.keys("files", "nobody") == []


async def test_a_redis_that_goes_away_says_so_and_serves_again_when_it_is_back(redis: RedisServer) -> None:
    store = RedisStore(redis.url)
    await store.put("files", "me:a", b"kept", seconds=LONG)
    redis.stop()
    try:
        with pytest.raises(StoreDown, match="The gateway's store cannot be reached"):
            await store.get("files", "me:a")
        with pytest.raises(StoreDown):
            await store.put("files", "me:a", b"", seconds=LONG)
        with pytest.raises(ConfigError, match="The Redis that store in \\[gateway\\] names cannot be used"):
            RedisStore(redis.url)
    finally:
        redis.start()
    assert await store.get("files", "me:a") == b"kept"
    await store.close()


async def test_a_wrong_password_of_a_redis_is_not_repeated(redis: RedisServer) -> None:
    with pytest.raises(ConfigError) as refused:
        RedisStore(redis.url.replace("unix://", "unix://user:never-shown@"))
    assert "never-shown" not in str(refused.value)
    assert refused.value.__cause__ is None
