"""The public names of ``hookgw.site``."""

from __future__ import annotations

from hookgw.site.brand import *
from hookgw.site.charts import *
from hookgw.site.cookies import *
from hookgw.site.differences import *
from hookgw.site.field_form import *
from hookgw.site.figure_part import SPARK_SECONDS as SPARK_SECONDS
from hookgw.site.figure_part import Sparks as Sparks
from hookgw.site.formats import *
from hookgw.site.list_view import *
from hookgw.site.moments import *
from hookgw.site.option_form import *
from hookgw.site.origin import *
from hookgw.site.payloads import *
from hookgw.site.site import *
from hookgw.site.words import WAITS as WAITS
