"""Reading captures: compressed files and streams become files that the core reads; tshark decodes the rest."""
