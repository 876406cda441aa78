"""The group commit that every engine uses: many writes, one transaction. No SQL."""
