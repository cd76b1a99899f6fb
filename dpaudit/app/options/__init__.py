"""Options that verbs share, and what TARGET, --pair, --data and -P stand for."""
