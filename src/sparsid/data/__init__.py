"""What was measured: records, their files and tables, their pieces, their scaling."""
