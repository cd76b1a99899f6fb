"""Private group-bys: any data frame, bounded person by person and added up exactly."""
