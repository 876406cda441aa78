"""Pure functions that know no concept of hookgw: fields of JSON, schemas, rules, audited changes. No I/O."""
