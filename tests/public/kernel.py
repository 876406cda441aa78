"""The public names of ``hookgw.kernel``."""

from __future__ import annotations

from hookgw.kernel import json_decoding
from hookgw.kernel.audited import *
from hookgw.kernel.base64url import *
from hookgw.kernel.errors import *
from hookgw.kernel.fields import *
from hookgw.kernel.host_name import *
from hookgw.kernel.json_fields import *
from hookgw.kernel.json_text import *
from hookgw.kernel.language import *
from hookgw.kernel.local_formats import *
from hookgw.kernel.long_json import *
from hookgw.kernel.masking import *
from hookgw.kernel.nearest import *
from hookgw.kernel.network_json import *
from hookgw.kernel.randomness import *
from hookgw.kernel.rates import *
from hookgw.kernel.rules import *
from hookgw.kernel.schema_parts import *
from hookgw.kernel.schemes import *
from hookgw.kernel.secret_options import *
from hookgw.kernel.sentences import *
from hookgw.kernel.signing_keys import *
from hookgw.kernel.target_url import *
from hookgw.kernel.times import *
from hookgw.kernel.units import *

decode_json_of_json_decoding = json_decoding.decode_json
