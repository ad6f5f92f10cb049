"""GeoPandas, whose frames have a column of its own type, in a run."""

from pathlib import Path

import pytest

from tests.app.conftest import running_session
from tests.kernel.matrix import with_packages
from vibe_jupyter.testing import call, say

PACKAGES = ("geopandas>=1,<2", "shapely>=2,<3", "pyproj>=3,<4", "pyogrio<1")
"""Those that GeoPandas needs beside pandas."""


@pytest.mark.matrix
@pytest.mark.xdist_group("geopandas")
def test_a_geodataframe_is_told_and_inspected(tmp_path: Path) -> None:
    with running_session(with_packages("geopandas", *PACKAGES), tmp_path) as session:
        session.run(
            "import geopandas\nfrom shapely import Point\n"
            "towns = geopandas.GeoDataFrame({'name': ['a', 'b'], 'geometry': [Point(0, 0), None]}, crs=4326)\n"
            "where = towns.geometry"
        )
        looks = [call("inspect", names=[name]) for name in ("towns", "where")]
        session.model.will_reply(call("inspect"), *looks, say("Seen."))

        cell = session.run("%%vibe\nWhat is @towns?")

        towns = (
            "towns: geopandas GeoDataFrame 2 × 2 (name str, geometry <geopandas.array.GeometryArray>), CRS EPSG:4326"
        )
        known = "geometry geometry: Point, missing; CRS EPSG:4326; bounds x 0 … 0, y 0 … 0"
        sent = session.model.requests
        assert towns in sent[0].last_user_text
        assert towns in sent[1].tool_results[-1]
        assert known in sent[2].tool_results[-1]
        assert "geopandas GeoSeries 2 <geopandas.array.GeometryArray>" in sent[3].tool_results[-1]
        assert known in sent[3].tool_results[-1]
        assert cell.text == cell.error == ""
