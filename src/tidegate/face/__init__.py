"""What users import: thin, joins runtime and ops."""
