"""Redis store, for a gateway that runs on several machines."""

from collections.abc import Awaitable
from typing import Any, Final, TypeVar, cast

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.store import StoreDown, group_of

T = TypeVar("T")

_NAME: Final = "vibe-gateway"  # prefix of all keys, since other programs may use the same Redis
_WAIT: Final = 5.0  # seconds for a connection, and for each reply
_CONNECTIONS: Final = 16  # per process; further requests wait up to `_WAIT` for one

_WRITE: Final = """
if ARGV[4] == 'new' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
redis.call('ZADD', KEYS[2], now + ARGV[3] * 1000, ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return 1
"""
_TAKE: Final = """
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('GETDEL', KEYS[1])
"""
_LIST: Final = """
local time = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], time[1] * 1000000 + time[2], '+inf')
"""


class RedisStore:
    """Store in Redis.

    Each entry is a string with an expiry. A sorted set per group contains the group's keys, scored by expiry time.

    Commands are never retried automatically: after a broken connection, the first attempt may have been executed, and a
    second `take` could take another entry.
    """

    def __init__(self, url: str) -> None:
        """
        Args:
            url: ``redis://host:6379/0``, ``rediss://`` for TLS, or ``unix:///path``.

        Raises:
            ConfigError: the server can't be reached.
        """
        terms: dict[str, Any] = {"socket_timeout": _WAIT, "socket_connect_timeout": _WAIT}
        try:
            with redis.Redis.from_url(url, **terms) as once:  # pyright: ignore[reportUnknownMemberType]
                once.ping()  # pyright: ignore[reportUnknownMemberType]
        except (RedisError, OSError, ValueError) as error:
            raise ConfigError(f"The Redis that store in [gateway] names cannot be used: {error}") from None
        pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url, max_connections=_CONNECTIONS, timeout=_WAIT, retry=Retry(NoBackoff(), 0), **terms
        )
        self._redis = Redis(connection_pool=pool)
        self._write = self._redis.register_script(_WRITE)
        self._take = self._redis.register_script(_TAKE)
        self._list = self._redis.register_script(_LIST)

    async def get(self, kind: str, key: str) -> bytes | None:
        return cast("bytes | None", await _answered(self._redis.get(_entry(kind, key))))

    async def put(self, kind: str, key: str, value: bytes, *, seconds: float) -> None:
        await self._written(kind, key, value, seconds, "any")

    async def add(self, kind: str, key: str, value: bytes, *, seconds: float) -> bool:
        return await self._written(kind, key, value, seconds, "new") == 1

    async def take(self, kind: str, key: str) -> bytes | None:
        return await _answered(self._take(keys=[_entry(kind, key), _group(kind, group_of(key))], args=[key]))

    async def keys(self, kind: str, group: str) -> list[str]:
        found = cast("list[bytes]", await _answered(self._list(keys=[_group(kind, group)])))
        return [key.decode() for key in found]

    async def close(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _written(self, kind: str, key: str, value: bytes, seconds: float, which: str) -> int:
        names = [_entry(kind, key), _group(kind, group_of(key))]
        return await _answered(self._write(keys=names, args=[key, value, int(seconds * 1000), which]))


def _entry(kind: str, key: str) -> str:
    return f"{_NAME}:{kind}:{key}"


def _group(kind: str, group: str) -> str:
    return f"{_NAME}-keys:{kind}:{group}"


async def _answered(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except (RedisError, OSError) as error:
        raise StoreDown(f"The gateway's store cannot be reached: {error}") from error
