"""The queries of the paper as they are printed, beside the SQL that asks the same."""

from __future__ import annotations

from tests.language.streams import stream

#: The stream of figure 2.
PHOTONS = stream(
    "photons",
    "coord.cel.ra:float coord.cel.dec:float coord.det.dx:int coord.det.dy:int phc:int en:float det_time:int",
    time="det_time",
)

FIGURE_3 = """
<photons>
  { for $p in stream("photons")/photons/photon
    where $p/coord/cel/ra >= 120.0
      and $p/coord/cel/ra <= 138.0
      and $p/coord/cel/dec >= -49.0
      and $p/coord/cel/dec <= -40.0
    return
      <vela>
        { $p/coord/cel/ra } { $p/coord/cel/dec }
        { $p/phc } { $p/en } { $p/det_time }
      </vela> }
</photons>
"""

FIGURE_4 = """
<photons>
  { for $p in stream("photons")/photons/photon
    where $p/en >= 1.3
      and $p/coord/cel/ra >= 130.5
      and $p/coord/cel/ra <= 135.5
      and $p/coord/cel/dec >= -48.0
      and $p/coord/cel/dec <= -45.0
    return
      <rxj>
        { $p/coord/cel/ra } { $p/coord/cel/dec }
        { $p/en } { $p/det_time }
      </rxj> }
</photons>
"""

FIGURE_7 = """
<photons>
  { for $w in stream("photons")/photons/photon
    [coord/cel/ra >= 120.0 and
      coord/cel/ra <= 138.0 and
      coord/cel/dec >= -49.0 and
      coord/cel/dec <= -40.0]
    |det_time diff 20 step 10|
    let $a := avg($w/en)
    return <avg_en> { $a } </avg_en> }
</photons>
"""

FIGURE_8 = """
<photons>
  { for $w in stream("photons")/photons/photon
    [coord/cel/ra >= 120.0 and
      coord/cel/ra <= 138.0 and
      coord/cel/dec >= -49.0 and
      coord/cel/dec <= -40.0]
    |det_time diff 60 step 40|
    let $a := avg($w/en)
    where $a >= 1.3
    return <avg_en> { $a } </avg_en> }
</photons>
"""

APPENDIX_C = """
        <photons>
          {for $p in /photons/photon
            where $p/en >= 1.3
              and $p/coord/cel/ra >= 130.5
              and $p/coord/cel/ra <= 135.5
              and $p/coord/cel/dec >= -48.0
              and $p/coord/cel/dec <= -45.0
            return
              <photon>
                <coord>
                  <cel>
                    {$p/coord/cel/ra}
                    {$p/coord/cel/dec}
                  </cel>
                </coord>
                {$p/en}
                {$p/det-time}
              </photon>
            }
        </photons >
"""

APPENDIX_E_1 = """
        <photons>
          {
            for $p in stream("photons")/photons/photon
            where $p/coord/cel/ra >= 120.0
              and $p/coord/cel/ra <= 138.0
              and $p/coord/cel/dec >= -49.0
              and $p/coord/cel/dec <= -40.0
        return
        <vela>
            {$p/coord/cel/ra} {$p/coord/cel/dec}
            {$p/phc} {$p/en} {$p/det-time}
        </vela>
    }
</photons>
"""

APPENDIX_E_2 = """
        <photons>
            {
                for $p in stream("photons")/photons/photon
                where $p/en >= 1.3
                    and $p/coord/cel/ra >= 130.5
                    and $p/coord/cel/ra <= 135.5
                    and $p/coord/cel/dec >= -48.0
                    and $p/coord/cel/dec <= -45.0
                return
                    <rxj_photon>
                        {$p/coord/cel/ra} {$p/coord/cel/dec}
                        {$p/en} {$p/det-time}
                    </rxj_photon>
            }
        </photons>
"""

APPENDIX_E_3 = """
        <photons>
            {
                for $w in stream("photons")/photons/photon
                [coord/cel/ra >= 120.0
                    and coord/cel/ra <= 138.8
                    and coord/cel/dec >= -49.0
                    and coord/cel/dec <= -40.0]
                |det_time diff 20 step 10|
                let $a := avg($w/photon/en)
                return
                    <avg_en>
                        {$a}
                    </avg_en>
            }
        </photons>
"""

APPENDIX_E_4 = """
        <photons>
            {
                for $w in stream("photons")/photons/photon
                [coord/cel/ra >= 120.0
                    and coord/cel/ra <= 138.0
                    and coord/cel/dec >= -49.0
                    and coord/cel/dec <= -40.0]
            |det_time diff 60 step 40|
        let $a := avg($w/photon/en)
        return
            <avg_en>
                {$a}
            </avg_en>
        }
    </photons>
"""

_VELA = (
    "coord.cel.ra >= 120.0 AND coord.cel.ra <= 138.0 AND coord.cel.dec >= -49.0 AND coord.cel.dec <= -40.0"
)
_RXJ = (
    "en >= 1.3 AND coord.cel.ra >= 130.5 AND coord.cel.ra <= 135.5 "
    "AND coord.cel.dec >= -48.0 AND coord.cel.dec <= -45.0"
)
_FIVE = f"SELECT coord.cel.ra, coord.cel.dec, phc, en, det_time FROM photons WHERE {_VELA}"
_FOUR = f"SELECT coord.cel.ra, coord.cel.dec, en, det_time FROM photons WHERE {_RXJ}"
_MEAN = f"SELECT avg(en) AS a FROM photons WHERE {_VELA} WINDOW"

#: What each asks, in SQL.
QUERIES = {
    "figure 3": (FIGURE_3, _FIVE),
    "figure 4": (FIGURE_4, _FOUR),
    "figure 7": (FIGURE_7, f"{_MEAN} RANGE 20 STEP 10"),
    "figure 8": (FIGURE_8, f"{_MEAN} RANGE 60 STEP 40 HAVING a >= 1.3"),
    "appendix C": (APPENDIX_C, _FOUR),
    "appendix E, 1": (APPENDIX_E_1, _FIVE),
    "appendix E, 2": (APPENDIX_E_2, _FOUR),
    "appendix E, 3": (APPENDIX_E_3, f"{_MEAN} RANGE 20 STEP 10".replace("138.0", "138.8")),
    "appendix E, 4": (APPENDIX_E_4, f"{_MEAN} RANGE 60 STEP 40"),
}
