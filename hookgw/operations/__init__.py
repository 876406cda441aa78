"""What an operator sees and does: reports, problems, audit, backups, jobs, erasure."""
