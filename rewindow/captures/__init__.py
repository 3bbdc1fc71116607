"""Reading captures: files, compressed ones and streams become files that the core reads; tshark decodes the rest."""
