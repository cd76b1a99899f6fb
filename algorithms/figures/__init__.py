"""What papers' figures are made of: runs, sentences that are judged, rows and pictures."""
