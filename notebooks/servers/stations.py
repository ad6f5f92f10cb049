"""A small MCP server: research stations in Antarctica, and how cold it is there. Made for the notebook beside it.

The figures are long-term means in °C, rounded. Nothing here opens a file or a connection.
"""

from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("stations", instructions="Stations are named as `list_stations` names them.")


class Station(BaseModel):
    """One station."""

    name: str
    latitude: float
    warmest: float
    """Mean of January."""
    coldest: float
    """Mean of August."""


STATIONS = {
    one.name: one
    for one in (
        Station(name="Palmer", latitude=-64.8, warmest=2.5, coldest=-7.2),
        Station(name="McMurdo", latitude=-77.8, warmest=-2.9, coldest=-27.1),
        Station(name="Vostok", latitude=-78.5, warmest=-32.0, coldest=-68.0),
    )
}


@server.tool()
def list_stations() -> list[Station]:
    """All stations with their latitude and their mean temperatures."""
    return list(STATIONS.values())


@server.tool()
def temperature(station: str, month: int) -> float:
    """The mean temperature at a station in a month from 1 to 12, in °C."""
    if station not in STATIONS:
        raise ValueError(f"There is no station {station!r}. There are: {', '.join(STATIONS)}.")
    if not 1 <= month <= 12:
        raise ValueError("A month is a number from 1 to 12.")
    from_january = min(month - 1, 13 - month)  # August is the coldest, and the way there is taken as straight
    share = min(1.0, from_january / 5)
    here = STATIONS[station]
    return round(here.warmest + share * (here.coldest - here.warmest), 1)


@server.resource("stations://notes")
def notes() -> str:
    """How the figures were made."""
    return "Long-term means, rounded to a tenth of a degree. Between January and August they lie on a straight line."


@server.prompt()
def compare(first: str, second: str) -> str:
    """Compare two stations."""
    return f"Which of the stations {first} and {second} is colder in August, and by how much?"


if __name__ == "__main__":
    server.run()
